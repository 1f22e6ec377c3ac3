"""`ContextNodes` and `AsyncContextNodes`: the nodes as methods, without a task queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context.base import ContextExecution, ContextServices
from ditto_tasks.context.checks import refuse
from ditto_tasks.context.inputs import CompressInput, LoadInput, SelectInput, UpdateInput
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.context.nodes.arguments import (
    CompressArguments,
    LoadArguments,
    SelectArguments,
    UpdateArguments,
    Wire,
    merged,
)
from ditto_tasks.context.nodes.dispatch import dispatch
from ditto_tasks.context.nodes.table import COMPRESS, LOAD, SELECT, UPDATE, ContextResult
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.context.receipts import Explained, Recording
from ditto_tasks.context.steps import drive, drive_async
from ditto_tasks.errors import ContextError
from ditto_tasks.state.commands import ForeignClient
from ditto_tasks.state.encoding import KEY_PREFIX
from ditto_tasks.state.queue import AsyncContextOperationQueue, ContextOperationQueue
from ditto_tasks.state.redis import RedisContextStore, StateClient
from ditto_tasks.state.scripted import TTL_MS


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """State in Redis: the client stays the caller's; the rest is as in `RedisContextStore`.

    `ttl_ms` is how long a context lives after its last write; keys begin with `key_prefix`.
    """

    client: StateClient | ForeignClient
    ttl_ms: int = TTL_MS
    key_prefix: str = KEY_PREFIX


class _Nodes:
    """What both forms are made with: a policy, services, and a state store from either place."""

    _foreign_queue: type[object]  # the kind of queue that cannot keep this form's calls in order

    def __init__(
        self,
        *,
        policy: ContextPolicy | Wire | None = None,
        services: ContextServices | None = None,
        redis: RedisOptions | None = None,
        runtime: object | None = None,
    ) -> None:
        self.policy = ContextPolicy.parse({} if policy is None else policy, "/policy")
        self.services = _with_redis(services or ContextServices(), redis)
        if isinstance(self.services.operation_queue, self._foreign_queue):
            raise refuse("/services", f"{self._foreign_queue.__name__} cannot serve {type(self).__name__}")
        self.runtime = runtime

    def _execution(self, call: CancelToken | None) -> ContextExecution:
        return ContextExecution(self.policy, self.services, call, self.runtime)


class ContextNodes(_Nodes):
    """The CONTEXT nodes for sync callers.

    Each method takes the wire form (camelCase), an input model, or snake_case keyword arguments, and raises
    ContextError, or what a service or the store raised. Nothing that was given is changed.
    `call` cancels; store, queue and services get it too, and services what was given as `runtime`.
    """

    _foreign_queue = AsyncContextOperationQueue

    def execute(
        self,
        node: str,
        input: object = None,  # noqa: A002 -- the name that the specification gives it
        *,
        call: CancelToken | None = None,
    ) -> ContextResult:
        """Run a node by its type; a missing input is refused, as null is."""
        return drive(dispatch(node, input, self._execution(call), drive))

    def explain(
        self,
        node: str,
        input: object = None,  # noqa: A002 -- the name that the specification gives it
        *,
        call: CancelToken | None = None,
    ) -> Explained:
        """Run SELECT or COMPRESS, and tell of each item why it was kept, dropped or skipped.

        COMPRESS with a scope writes, as it always does.
        """
        execution, recording = _recorded(self._execution(call), node)
        return Explained.of(drive(dispatch(node, input, execution, drive)), recording)

    def load(
        self,
        request: LoadInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[LoadArguments],
    ) -> Context:
        """Sources as a context, or the stored one of a scope."""
        return _context(self.execute(LOAD, merged(request, arguments), call=call))

    def select(
        self,
        request: SelectInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[SelectArguments],
    ) -> ContextSelection:
        """The best items for a purpose. Never writes."""
        return _selection(self.execute(SELECT, merged(request, arguments), call=call))

    def update(
        self,
        request: UpdateInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[UpdateArguments],
    ) -> Context:
        """The context after removals, additions and ingress."""
        return _context(self.execute(UPDATE, merged(request, arguments), call=call))

    def compress(
        self,
        request: CompressInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[CompressArguments],
    ) -> Context:
        """The context within its budgets."""
        return _context(self.execute(COMPRESS, merged(request, arguments), call=call))


class AsyncContextNodes(_Nodes):
    """`ContextNodes` for async callers; services, store and queue may be sync or async.

    A sync service runs on the event loop's thread: give this class services that do not block.
    """

    _foreign_queue = ContextOperationQueue

    async def execute(
        self,
        node: str,
        input: object = None,  # noqa: A002 -- the name that the specification gives it
        *,
        call: CancelToken | None = None,
    ) -> ContextResult:
        """Run a node by its type; a missing input is refused, as null is."""
        return await drive_async(dispatch(node, input, self._execution(call), drive_async))

    async def explain(
        self,
        node: str,
        input: object = None,  # noqa: A002 -- the name that the specification gives it
        *,
        call: CancelToken | None = None,
    ) -> Explained:
        """Run SELECT or COMPRESS, and tell of each item why it was kept, dropped or skipped.

        COMPRESS with a scope writes, as it always does.
        """
        execution, recording = _recorded(self._execution(call), node)
        return Explained.of(await drive_async(dispatch(node, input, execution, drive_async)), recording)

    async def load(
        self,
        request: LoadInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[LoadArguments],
    ) -> Context:
        """Sources as a context, or the stored one of a scope."""
        return _context(await self.execute(LOAD, merged(request, arguments), call=call))

    async def select(
        self,
        request: SelectInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[SelectArguments],
    ) -> ContextSelection:
        """The best items for a purpose. Never writes."""
        return _selection(await self.execute(SELECT, merged(request, arguments), call=call))

    async def update(
        self,
        request: UpdateInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[UpdateArguments],
    ) -> Context:
        """The context after removals, additions and ingress."""
        return _context(await self.execute(UPDATE, merged(request, arguments), call=call))

    async def compress(
        self,
        request: CompressInput | Wire | None = None,
        /,
        *,
        call: CancelToken | None = None,
        **arguments: Unpack[CompressArguments],
    ) -> Context:
        """The context within its budgets."""
        return _context(await self.execute(COMPRESS, merged(request, arguments), call=call))


def _recorded(execution: ContextExecution, node: str) -> tuple[ContextExecution, Recording]:
    if node not in (SELECT, COMPRESS):
        raise ContextError("UNKNOWN_NODE", f"only {SELECT} and {COMPRESS} have receipts")
    recording = Recording()
    return replace(execution, recorder=recording), recording


def _with_redis(services: ContextServices, redis: RedisOptions | None) -> ContextServices:
    if redis is None:
        return services
    if services.state_store is not None:
        raise refuse("/redis", "cannot be given together with a state store")
    store = RedisContextStore(redis.client, ttl_ms=redis.ttl_ms, key_prefix=redis.key_prefix)
    return replace(services, state_store=store)


def _context(result: ContextResult) -> Context:
    if not isinstance(result, Context):
        raise ContextError("INVALID_PROVIDER_OUTPUT", "the queue answered another operation's result")
    return result


def _selection(result: ContextResult) -> ContextSelection:
    if not isinstance(result, ContextSelection):
        raise ContextError("INVALID_PROVIDER_OUTPUT", "the queue answered another operation's result")
    return result
