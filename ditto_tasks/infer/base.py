"""Ports of INFER: who answers, who listens, who remembers, and the limits of one call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from ditto_tasks.cancellation import admit_all
from ditto_tasks.errors import InferError
from ditto_tasks.infer.models import CacheKey, DeliberationMode
from ditto_tasks.infer.values import ActionDescriptor, GenerationConfig, Message, Sample
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import CancelToken, JsonMap, NonEmptyText, WireModel

Emit = Callable[[JsonObject], None]


class TransientProviderError(InferError):
    """The provider may answer the same request later; ``details.retryAfterMs`` says when, if it told."""


class ModelRequest(WireModel):
    """What a provider is asked; everything that decides the answer is in here."""

    provider: NonEmptyText
    model: NonEmptyText
    messages: tuple[Message, ...]
    generation: GenerationConfig
    actions: tuple[ActionDescriptor, ...]
    provider_options: JsonMap


class Once(Protocol):
    """Runs one external effect at most once, however often its task is delivered."""

    def __call__(
        self, request: ModelRequest, effect: Callable[[], Sample], admit: Callable[[], None]
    ) -> Sample:
        """The recorded sample of this position, or that of ``effect``, recorded if ``admit`` lets it run."""
        ...


@dataclass(frozen=True, kw_only=True)
class InferCall:
    """The caller's limits on one node call; an absent one falls back to the worker's.

    ``admit`` raises where no model is to be asked any more; a recorded sample is not asking.
    """

    timeout_ms: int | None = None
    retries: int = 0
    token: CancelToken = field(default_factory=CancelToken)
    emit: Emit | None = None
    once: Once | None = None
    admit: Callable[[], None] = admit_all

    def with_records(self, *, once: Once, emit: Emit | None) -> "InferCall":
        """The same limits, with samples recorded and events emitted."""
        return replace(self, once=once, emit=emit)


@dataclass(frozen=True, kw_only=True)
class ProviderCall:
    """The limits that a provider keeps while it answers."""

    token: CancelToken
    deadline_s: float  # on the clock of ``now``
    now: Callable[[], float]
    on_text: Callable[[str], None] | None = None

    def remaining_s(self) -> float:
        """Seconds left; raises the token's reason or TIMEOUT when there are none."""
        self.token.raise_if_cancelled()
        left = self.deadline_s - self.now()
        if left <= 0:
            raise InferError("TIMEOUT", "the model did not answer in time")
        return left


class ModelProvider(Protocol):
    """Answers one request of a model.

    ``sample`` returns by ``call.deadline_s`` and soon after ``call.token`` is cancelled, and leaves no
    request running then. It never repeats a request by itself. Errors are InferError with a safe
    message; one that a later repeat may cure is a TransientProviderError.

    A provider whose answers cost and change nothing may say ``repeatable = True``: its samples are then
    not recorded, and a repeated delivery asks again instead of ending as OUTCOME_UNKNOWN.
    """

    @property
    def endpoint(self) -> str | None:
        """Where requests go, or None for a provider without a network."""
        ...

    @property
    def default_model(self) -> str | None:
        """The model asked when the caller names none."""
        ...

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        """Return the model's answer; text is given to ``call.on_text`` as it comes, if set."""
        ...

    def close(self) -> None:
        """Close connections; the provider is not used afterwards."""
        ...


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a trajectory strategy works on; ``messages`` hold the context and memory entries too."""

    messages: tuple[Message, ...]
    objective: str | None
    options: JsonObject


class StrategyTools(Protocol):
    """All that a strategy can do. Each may raise: a budget's end goes through the strategy to the node."""

    def sample(self, messages: Sequence[Message], *, label: str | None = None) -> Sample:
        """Ask the model for one answer."""
        ...

    def deliberate(
        self, candidates: Sequence[Message], *, mode: DeliberationMode = "select", count: int = 1
    ) -> list[Message]:
        """Let the model choose ``count`` of the candidates, best first, or make one message of all."""
        ...

    def step(self, note: str) -> None:
        """Record a note."""
        ...


# returns the trajectory's result, or None if it found none
Strategy = Callable[[Problem, StrategyTools], Message | None]


class InferCache(Protocol):
    """Remembers values under a key, for a time, with tags. Every operation is atomic."""

    def lookup(self, key: CacheKey) -> tuple[bool, JsonValue]:
        """Return (True, value) for a live entry, else (False, None)."""
        ...

    def write(self, key: CacheKey, value: JsonValue, *, ttl_ms: int | None, tags: tuple[str, ...]) -> None:
        """Replace the entry; ``ttl_ms`` None keeps it for ever, 0 removes it."""
        ...

    def invalidate(self, *, key: CacheKey | None, tag: str | None, namespace: str | None) -> int:
        """Remove the live entries that one selector names; return their number."""
        ...
