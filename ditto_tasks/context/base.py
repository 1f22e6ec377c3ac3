"""Ports of the CONTEXT nodes: what an application may put in the place of a built-in behaviour.

Each service is handed the whole `ContextExecution`. A service of `ContextNodes` answers at once;
one of `AsyncContextNodes` may return an awaitable instead. What a service raises passes unchanged,
and what it answers is checked (INVALID_PROVIDER_OUTPUT).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ditto_tasks.cancellation import CancelToken, checkpoint
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.models import Context, ContextItem, ContextReference
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.state.base import ContextStateStore

Items: TypeAlias = Sequence[ContextItem | JsonObject]


class TokenEstimator(Protocol):
    """Counts tokens as the model behind the budget does."""

    def estimate(self, content: JsonValue, execution: ContextExecution) -> int | Awaitable[int | None] | None:
        """Tokens of one content (a safe integer >= 0), or None for the built-in four bytes a token."""


class ContextSelector(Protocol):
    """Serves SELECT's strategy kind "provider"."""

    def select(self, request: SelectInput, execution: ContextExecution) -> Items | Awaitable[Items]:
        """Candidates, best first; they need not be items of the context. Limits are applied after it."""


class RagStrategy(Protocol):
    """Serves SELECT's strategy kind "rag"."""

    def select(self, request: SelectInput, execution: ContextExecution) -> Items | Awaitable[Items]:
        """Candidates, best first; they need not be items of the context. Limits are applied after it."""


class ContextCompressor(Protocol):
    """Takes the place of `deterministic_compress`."""

    def compress(
        self, request: CompressInput, execution: ContextExecution
    ) -> Context | JsonObject | Awaitable[Context | JsonObject]:
        """A context within the request's budgets (the policy's are merged in already): no new ids, every
        protected item, no callId group in part. It may reorder and rewrite content.
        """


class ReferenceResolver(Protocol):
    """Fetches what a bare reference of LOAD points to. None is built in."""

    def resolve(
        self, reference: ContextReference, execution: ContextExecution
    ) -> JsonValue | Awaitable[JsonValue]:
        """The content. Called once an occurrence; authorises the URI and bounds its own I/O."""


class OperationQueue(Protocol):
    """Runs the operations of one scope one after another, in the order in which they came."""

    def enqueue(
        self, scope: Scope, operation: Callable[[], object], call: CancelToken | None = None
    ) -> object:
        """Run `operation` when its turn comes and answer what it answers; QUEUE_FULL when too many wait."""


class Recorder(Protocol):
    """Takes down why each item was kept, dropped or skipped."""

    def begin(self, request: SelectInput | CompressInput, execution: ContextExecution) -> None:
        """A node starts on this request, whose context was read."""

    def estimated(self, content: JsonValue, tokens: int) -> None:
        """What the injected estimator answered for a content."""

    def note(self, item: ContextItem, **facts: JsonValue) -> None:
        """Add facts about an item to those that are noted already."""


@dataclass(frozen=True, slots=True)
class ContextServices:
    """What an application injects; everything is optional. Each is an object with its port's methods."""

    token_estimator: TokenEstimator | None = None
    selector: ContextSelector | None = None
    compressor: ContextCompressor | None = None
    rag_strategy: RagStrategy | None = None
    reference_resolver: ReferenceResolver | None = None
    state_store: ContextStateStore | None = None
    operation_queue: OperationQueue | None = None


@dataclass(frozen=True, slots=True)
class ContextExecution:
    """What one run of a node works with; services get all of it.

    `call` is the caller's cancel token, which store and queue get as well. `runtime` is what whoever
    runs the node lends to services, such as a client bound to the task's deadline. `recorder` is there
    when a receipt is wanted.
    """

    policy: ContextPolicy = field(default_factory=ContextPolicy)
    services: ContextServices = field(default_factory=ContextServices)
    call: CancelToken | None = None
    runtime: object | None = None
    recorder: Recorder | None = None

    def checkpoint(self) -> None:
        """Raise the caller's reason once the call was cancelled."""
        checkpoint(self.call)
