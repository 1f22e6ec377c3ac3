"""The loop on a thread: results, limits, cancellation that has ended before the caller goes on."""

import asyncio
import threading
from collections.abc import Iterator
from threading import Timer

import pytest

from ditto_tasks.errors import Cancelled, DittoError
from ditto_tasks.event_loop import LoopThread
from ditto_tasks.models import CancelToken

LATE = DittoError("LATE", "too late")


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    opened = LoopThread("test-loop")
    yield opened
    opened.close()


class Work:
    """Hangs, and notes that it was ended."""

    def __init__(self) -> None:
        self.ended = False

    async def hang(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended = True


def test_result_and_error_come_back(loop: LoopThread) -> None:
    """What the coroutine returns or raises, its own TimeoutError included, reaches the caller."""

    async def answer() -> int:
        return 3

    async def own_timeout() -> int:
        raise TimeoutError("own")

    assert loop.run(answer, timeout_s=20, token=CancelToken(), on_timeout=LATE) == 3
    with pytest.raises(TimeoutError, match="own"):
        loop.run(own_timeout, timeout_s=20, token=CancelToken(), on_timeout=LATE)


def test_past_the_limit_the_work_has_ended(loop: LoopThread) -> None:
    """Past its limit the coroutine is cancelled, and has cleaned up before the error is raised."""
    work = Work()
    with pytest.raises(DittoError, match="LATE"):
        loop.run(work.hang, timeout_s=0.05, token=CancelToken(), on_timeout=LATE)
    assert work.ended


def test_cancelled_work_has_ended(loop: LoopThread) -> None:
    """A cancelled token raises its reason once the coroutine has cleaned up."""
    work, token = Work(), CancelToken()
    timer = Timer(0.05, token.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        loop.run(work.hang, timeout_s=20, token=token, on_timeout=LATE)
    assert work.ended
    timer.join()


def test_calls_run_side_by_side(loop: LoopThread) -> None:
    """A hanging call does not keep another from its result."""
    token = CancelToken()

    def hang() -> None:
        with pytest.raises(Cancelled):
            loop.run(Work().hang, timeout_s=20, token=token, on_timeout=LATE)

    hanging = threading.Thread(target=hang)
    hanging.start()

    async def answer() -> int:
        return 3

    assert loop.run(answer, timeout_s=20, token=CancelToken(), on_timeout=LATE) == 3
    token.cancel()
    hanging.join(20)
    assert not hanging.is_alive()


def test_closed_loop_leaves_no_thread() -> None:
    """Closing runs the last coroutine and ends the thread; a loop that never ran has nothing to close."""
    closed: list[int] = []

    async def last() -> None:
        closed.append(1)

    async def answer() -> int:
        return 3

    idle, used = LoopThread("idle-loop"), LoopThread("used-loop")
    used.run(answer, timeout_s=20, token=CancelToken(), on_timeout=LATE)
    for each in (idle, used):
        each.close(last)
        each.close(last)
    assert closed == [1]
    assert "used-loop" not in [thread.name for thread in threading.enumerate()]
