"""What both batch tasks have in common: many contexts read at a time, and a limit to how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, cast

from ditto_tasks.batch.opening import OpenBatch
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.opening import OpenContext
from ditto_tasks.context.task_store import ReadStore, typed_errors
from ditto_tasks.errors import ContextError, StateBackendError
from ditto_tasks.models import Scope
from ditto_tasks.state.base import ContextStateStore, StoredContext
from ditto_tasks.state.encoding import decode_record
from ditto_tasks.state.redis import RedisContextStore
from ditto_tasks.task import TaskCall

GIVE_WAY_AFTER_S: Final = 0.001
GIVE_WAY_S: Final = 0.000_05
BESIDE_S: Final = 0.5  # a worker that was at work for others so lately tells the run

Read = Callable[[], StoredContext]


def reads(scopes: Sequence[Scope], opened: OpenContext, batch: OpenBatch) -> Iterator[Read]:
    """How to get each scope's context, CONTEXT_NOT_FOUND if it has none. Ours are read many at a time."""
    store = store_of(opened.services.state_store)
    if not isinstance(store, RedisContextStore):
        one_by_one = ReadStore(store)
        yield from (partial(_read, one_by_one, scope) for scope in scopes)
        return
    with typed_errors():
        for record in batch.index().records(scopes):
            yield partial(_decoded, record)


def _read(store: ReadStore, scope: Scope) -> StoredContext:
    return _present(store.get(scope))


def _decoded(record: bytes | None) -> StoredContext:
    return _present(None if record is None else decode_record(record))


def _present(stored: StoredContext | None) -> StoredContext:
    if stored is None:
        raise ContextError("CONTEXT_NOT_FOUND", "the scope has no context")
    return stored


def store_of(store: ContextStateStore | None) -> ContextStateStore:
    """The store that is configured."""
    if store is None:
        raise StateBackendError("STATE_STORE_UNAVAILABLE", "no state store is configured")
    return store


def execution_of(call: TaskCall, opened: OpenContext) -> ContextExecution:
    """What the nodes of CONTEXT compute with."""
    return ContextExecution(opened.policy, opened.services, call.token)


def batch_of(call: TaskCall) -> OpenBatch:
    """The clients of a call's process."""
    return cast("OpenBatch", call.dependencies.domain("batch"))


class Turn:
    """How long a call may go on, and when it lets others have the interpreter."""

    def __init__(self, call: TaskCall) -> None:
        self._gave_way_s = time.monotonic()
        self._ends_s = self._gave_way_s + call.dependencies.settings.runtime.batch.chunk_ms / 1000

    def is_over(self) -> bool:
        """Whether the call has taken runtime.batch.chunkMs."""
        return time.monotonic() >= self._ends_s

    def give_way(self) -> None:
        """Between scopes: a thread that computes on gives others its GIL every 5 ms only."""
        if time.monotonic() - self._gave_way_s >= GIVE_WAY_AFTER_S:
            time.sleep(GIVE_WAY_S)
            self._gave_way_s = time.monotonic()


def is_beside(call: TaskCall) -> bool:
    """Whether this process is at work for others, too, or was a moment ago."""
    return call.beside(BESIDE_S)
