"""One operation of a scope at a time, in the order in which they came, and no endless waiting line."""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, Generic, TypeVar

from ditto_tasks.cancellation import CancelToken, checkpoint
from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope
from ditto_tasks.state.limits import check_positive

MAX_PENDING: Final = 1_024

ResultT = TypeVar("ResultT")
TurnT = TypeVar("TurnT")


class _Lanes(Generic[TurnT]):
    """Who waits for which scope; the first of a lane is the one that runs."""

    def __init__(self, max_pending: int) -> None:
        self._max_pending = check_positive(max_pending, "maxPending")
        self.pending = 0
        self._lanes: dict[str, deque[TurnT]] = {}

    def join(self, key: str, turn: TurnT) -> bool:
        """Take a place, or raise QUEUE_FULL; True if it is this one's turn already."""
        if self.pending >= self._max_pending:
            raise ContextError("QUEUE_FULL", "too many operations are running or waiting")
        self.pending += 1
        lane = self._lanes.setdefault(key, deque())
        lane.append(turn)
        return lane[0] is turn

    def leave(self, key: str, turn: TurnT) -> TurnT | None:
        """Give the place up; whose turn it is then, who may know it already."""
        lane = self._lanes[key]
        lane.remove(turn)
        self.pending -= 1
        if not lane:
            del self._lanes[key]
            return None
        return lane[0]


class ContextOperationQueue:
    """For threads: `enqueue` returns when the operation has run, in the caller's own thread.

    First come, first served within a scope; scopes do not wait for each other. An operation that waits
    keeps its place when it is cancelled, and does not run. An operation must not enqueue on its own scope.
    """

    def __init__(self, *, max_pending: int = MAX_PENDING) -> None:
        self._lanes: _Lanes[threading.Event] = _Lanes(max_pending)
        self._lock = threading.Lock()

    @property
    def pending(self) -> int:
        """How many operations run or wait, over all scopes."""
        return self._lanes.pending

    def enqueue(
        self, scope: Scope, operation: Callable[[], ResultT], call: CancelToken | None = None
    ) -> ResultT:
        """The operation's result or error; ContextError QUEUE_FULL if too many pend over all scopes."""
        checkpoint(call)
        key, turn = scope_key(scope), threading.Event()
        with self._lock:
            if self._lanes.join(key, turn):
                turn.set()
        try:
            turn.wait()
            checkpoint(call)
            return operation()
        finally:
            self._leave(key, turn)

    def _leave(self, key: str, turn: threading.Event) -> None:
        with self._lock:
            following = self._lanes.leave(key, turn)
        if following is not None:
            following.set()


class AsyncContextOperationQueue:
    """The same for one event loop: `enqueue` takes its place at once and gives something to await."""

    def __init__(self, *, max_pending: int = MAX_PENDING) -> None:
        self._lanes: _Lanes[asyncio.Future[None]] = _Lanes(max_pending)

    @property
    def pending(self) -> int:
        """How many operations run or wait, over all scopes."""
        return self._lanes.pending

    def enqueue(
        self,
        scope: Scope,
        operation: Callable[[], Awaitable[ResultT] | ResultT],
        call: CancelToken | None = None,
    ) -> "asyncio.Future[ResultT]":
        """A future of the operation's result; it runs in its turn whether or not somebody awaits it.

        Raises at once for a cancelled call or a bad scope; a full queue is an error of the future.
        """
        checkpoint(call)
        key, loop = scope_key(scope), asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        try:
            first = self._lanes.join(key, turn)
        except ContextError as full:
            refused: asyncio.Future[ResultT] = loop.create_future()
            refused.set_exception(full)
            return refused
        if first:
            turn.set_result(None)
        task = loop.create_task(_run(turn, operation, call))
        # a callback and not a `finally`: a task that is cancelled before its first step runs no line of it
        task.add_done_callback(lambda _: self._leave(key, turn))
        return task

    def _leave(self, key: str, turn: "asyncio.Future[None]") -> None:
        following = self._lanes.leave(key, turn)
        if following is not None and not following.done():
            following.set_result(None)


async def _run(
    turn: "asyncio.Future[None]",
    operation: Callable[[], Awaitable[ResultT] | ResultT],
    call: CancelToken | None,
) -> ResultT:
    await turn
    checkpoint(call)
    result = operation()
    return await result if isawaitable(result) else result
