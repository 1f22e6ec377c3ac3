"""The queue in one process: order within a scope, freedom between scopes, and a bound over all."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from support.polling import eventually
from support.states import refused

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope
from ditto_tasks.state.queue import AsyncContextOperationQueue, ContextOperationQueue

A, B = Scope(session_id="a"), Scope(session_id="b")


class Gate:
    """An operation that says when it has begun and ends when it is told to."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.open.wait(10)
        return "done"


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads for callers."""
    with ThreadPoolExecutor(32) as pool:
        yield pool


def enqueue_in_order(
    threads: ThreadPoolExecutor, queue: ContextOperationQueue, operations: list[Callable[[], object]]
) -> "list[Future[object]]":
    """Let threads enqueue on one scope, each after the one before has its place."""
    futures = []
    for waiting, operation in enumerate(operations, start=queue.pending + 1):
        futures.append(threads.submit(queue.enqueue, A, operation))
        eventually(lambda waiting=waiting: queue.pending == waiting)
    return futures


def test_an_operation_runs_in_the_callers_thread() -> None:
    """enqueue returns what the operation returns, and runs it where it was called."""
    assert ContextOperationQueue().enqueue(A, threading.get_ident) == threading.get_ident()


def test_a_scope_is_served_in_order(threads: ThreadPoolExecutor) -> None:
    """Operations of one scope run one after another, in the order in which they came."""
    queue, gate, order = ContextOperationQueue(), Gate(), list[int]()
    operations: list[Callable[[], object]] = [
        gate,
        *(lambda number=number: order.append(number) for number in range(20)),
    ]
    futures = enqueue_in_order(threads, queue, operations)
    assert order == []
    gate.open.set()
    for future in futures:
        future.result(10)
    assert order == list(range(20))
    assert queue.pending == 0


def test_other_scopes_run_at_once(threads: ThreadPoolExecutor) -> None:
    """A scope whose operation takes long holds no other scope up."""
    queue, gate = ContextOperationQueue(), Gate()
    slow = threads.submit(queue.enqueue, A, gate)
    assert gate.begun.wait(10)
    assert queue.enqueue(B, lambda: "at once") == "at once"
    gate.open.set()
    assert slow.result(10) == "done"


def test_the_bound_counts_all_scopes(threads: ThreadPoolExecutor) -> None:
    """With max_pending running or waiting over all scopes the next is QUEUE_FULL, until one is done."""
    queue, gate = ContextOperationQueue(max_pending=2), Gate()
    futures = enqueue_in_order(threads, queue, [gate, str])
    refused(lambda: queue.enqueue(B, str), "QUEUE_FULL")
    gate.open.set()
    for future in futures:
        future.result(10)
    assert queue.enqueue(B, str) == ""


def test_a_failed_operation_fails_only_its_caller(threads: ThreadPoolExecutor) -> None:
    """An operation's own error reaches its caller unchanged, and the next one runs."""
    queue, gate, error = ContextOperationQueue(), Gate(), LookupError("own")

    def fail() -> None:
        raise error

    futures = enqueue_in_order(threads, queue, [gate, fail, lambda: "next"])
    gate.open.set()
    assert futures[1].exception(10) is error
    assert futures[2].result(10) == "next"


def test_a_cancelled_operation_keeps_its_place_and_does_not_run(threads: ThreadPoolExecutor) -> None:
    """Cancelled while it waits, an operation fails with the reason when its turn comes, and not before."""
    queue, gate, ran, call = ContextOperationQueue(), Gate(), list[str](), CancelToken()
    (running,) = enqueue_in_order(threads, queue, [gate])
    waiting = threads.submit(queue.enqueue, A, lambda: ran.append("ran"), call)
    eventually(lambda: queue.pending == 2)
    call.cancel(KeyError("why"))
    assert not waiting.done()
    gate.open.set()
    assert isinstance(waiting.exception(10), KeyError)
    assert running.result(10) == "done"
    assert (ran, queue.pending) == ([], 0)


def test_calls_are_checked_before_they_wait() -> None:
    """A cancelled call, then a bad scope, then a full queue: in this order, and none takes a place."""
    queue, call = ContextOperationQueue(), CancelToken()
    call.cancel(KeyError("why"))
    with pytest.raises(KeyError):
        queue.enqueue({}, str, call)
    refused(lambda: queue.enqueue({}, str), "INVALID_INPUT")
    assert queue.pending == 0


@pytest.mark.parametrize("max_pending", [0, -1, 1.5, True, None, "1"])
@pytest.mark.parametrize("kind", [ContextOperationQueue, AsyncContextOperationQueue])
def test_a_bad_bound_is_refused(kind: Callable[..., object], max_pending: object) -> None:
    """maxPending is a positive safe integer, for both forms."""
    refused(lambda: kind(max_pending=max_pending), "INVALID_INPUT")


def test_async_operations_of_a_scope_run_in_order() -> None:
    """On an event loop too a scope is served in the order of the calls, and other scopes at once."""

    async def scenario() -> list[str]:
        queue, order, gate = AsyncContextOperationQueue(), list[str](), asyncio.Event()

        async def slow() -> str:
            await gate.wait()
            order.append("slow")
            return "slow"

        first = queue.enqueue(A, slow)
        rest = [queue.enqueue(A, lambda number=number: order.append(str(number))) for number in range(3)]
        await queue.enqueue(B, lambda: order.append("b"))
        gate.set()
        assert await first == "slow"
        await asyncio.gather(*rest)
        assert queue.pending == 0
        return order

    assert asyncio.run(scenario()) == ["b", "slow", "0", "1", "2"]


def test_an_async_queue_is_bounded() -> None:
    """QUEUE_FULL comes as the future's error, and the queue has room again afterwards."""

    async def scenario() -> None:
        queue, gate = AsyncContextOperationQueue(max_pending=1), asyncio.Event()
        running = queue.enqueue(A, gate.wait)
        with pytest.raises(ContextError) as caught:
            await queue.enqueue(B, str)
        assert caught.value.code == "QUEUE_FULL"
        gate.set()
        await running
        assert await queue.enqueue(B, str) == ""

    asyncio.run(scenario())


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_dropped_awaiter_frees_its_place(victim: int) -> None:
    """When the future of a running or waiting operation is cancelled, the others still have their turns."""

    async def scenario() -> None:
        queue, gate = AsyncContextOperationQueue(), asyncio.Event()
        futures = [queue.enqueue(A, gate.wait) for _ in range(3)]
        await asyncio.wait(futures[:1], timeout=0.01)
        futures[victim].cancel()
        gate.set()
        done = await asyncio.gather(*futures, return_exceptions=True)
        assert [isinstance(result, asyncio.CancelledError) for result in done].count(True) == 1
        assert await queue.enqueue(A, lambda: "next") == "next"
        assert queue.pending == 0

    asyncio.run(scenario())


def test_a_future_that_is_cancelled_before_it_began_frees_its_place() -> None:
    """A place taken and given up in the same turn of the event loop is free again."""

    async def scenario() -> None:
        queue = AsyncContextOperationQueue(max_pending=1)
        queue.enqueue(A, str).cancel()
        await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(str))])
        assert await queue.enqueue(A, lambda: "next") == "next"

    asyncio.run(scenario())


def test_an_async_operation_is_checked_again_in_its_turn() -> None:
    """Cancelled while it waits, an operation does not run and fails with the reason."""

    async def scenario() -> list[str]:
        queue, gate, call, ran = AsyncContextOperationQueue(), asyncio.Event(), CancelToken(), list[str]()
        running = queue.enqueue(A, gate.wait)
        waiting = queue.enqueue(A, lambda: ran.append("ran"), call)
        call.cancel(KeyError("why"))
        gate.set()
        await running
        with pytest.raises(KeyError):
            await waiting
        return ran

    assert asyncio.run(scenario()) == []
