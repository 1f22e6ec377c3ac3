"""Reads that may block: what they give comes back, and a call that is to stop does not wait for them."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ditto_tasks.cancellation import CancelToken, current_token, working_for
from ditto_tasks.errors import Cancelled, DittoError
from ditto_tasks.interruptions import READS, AskingToken, ReadThreads


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """Ends the reads that a test leaves behind."""
    event = threading.Event()
    yield event
    event.set()


def test_a_read_gives_its_result_or_its_error() -> None:
    """Also a TimeoutError of its own, which is no end of the waiting."""

    def late() -> None:
        raise TimeoutError("the read's own")

    assert READS.run(lambda: 7, CancelToken()) == 7
    with pytest.raises(TimeoutError, match="own"):
        READS.run(late, CancelToken())


def test_a_blocked_read_is_left_behind(go_on: threading.Event) -> None:
    """The caller gets its token's reason at once, though the read goes on."""
    token = CancelToken()
    threading.Timer(0.1, token.cancel).start()
    with pytest.raises(Cancelled):
        ReadThreads().run(go_on.wait, token)
    assert not go_on.is_set()


def test_a_token_asks_while_a_read_blocks(go_on: threading.Event) -> None:
    """Nobody else has to cancel it: waiting for the read is a check point too."""
    asked: list[float] = []

    def ask() -> DittoError | None:
        asked.append(time.monotonic())
        return Cancelled("TIMEOUT", "late") if len(asked) == 2 else None

    with pytest.raises(Cancelled, match="TIMEOUT"):
        ReadThreads().run(go_on.wait, AskingToken(ask))
    assert asked[1] - asked[0] > 0.4


def test_threads_are_used_again() -> None:
    """One after the other, many reads need one thread."""
    threads = ReadThreads()
    seen = {threads.run(threading.get_ident, CancelToken()) for _ in range(50)}
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_without_a_free_thread_the_caller_reads(go_on: threading.Event) -> None:
    """Reads that were left behind take no more than so many threads, and stop nobody else."""
    threads = ReadThreads(2)
    for _ in range(2):
        token = CancelToken()
        token.cancel()
        with pytest.raises(Cancelled):
            threads.run(go_on.wait, token)
    assert threads.run(threading.get_ident, CancelToken()) == threading.get_ident()


def in_order(*steps: Callable[[], object]) -> list[object]:
    return [step() for step in steps]


def test_the_token_of_the_call_reaches_what_is_behind_a_port() -> None:
    """On the thread of the read as well, and only for as long as the call lasts."""
    token = CancelToken()
    with working_for(token):
        assert in_order(current_token, lambda: READS.run(current_token, CancelToken())) == [token, token]
        with working_for(None):
            assert current_token() is not token
    assert current_token() is not token
