"""Notices while a handler works that its task was cancelled or is out of time."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Final, TypeVar

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import DittoError
from ditto_tasks.task import TaskCall

_log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_READS: Final = 64  # reads of this process that run or were left behind
CANCEL_POLL_S: Final = 0.05  # how late a read's caller notices that its token was cancelled
ASK_EVERY_S: Final = 0.5  # one round trip each; a cancellation is noticed this late


class ReadThreads:
    """Threads for reads that may block for long: one that is to stop is left to end by itself.

    There are at most ``max_threads``; when all are taken, a read runs on the thread of its caller.
    """

    def __init__(self, max_threads: int = MAX_READS) -> None:
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._begin()

    def run(self, work: Callable[[], T], token: CancelToken) -> T:
        """The work's result or exception; the token's reason as soon as it is cancelled."""
        job: Future[T] = Future()
        if not self._take_up(job, work):
            return work()
        while True:
            try:
                return job.result(CANCEL_POLL_S)
            except TimeoutError:
                if job.done():  # the work's own
                    return job.result()
                token.raise_if_cancelled()

    def _begin(self) -> None:
        self._pid, self._idle, self._threads = os.getpid(), 0, 0
        self._jobs: SimpleQueue[Callable[[], Callable[[], None]]] = SimpleQueue()

    def _take_up(self, job: Future[T], work: Callable[[], T]) -> bool:
        with self._lock:
            if self._pid != os.getpid():
                self._begin()  # the parent's threads are not here
            if self._idle == 0 and self._threads == self._max_threads:
                return False
            self._jobs.put(partial(copy_context().run, _done, job, work))
            if self._idle > 0:
                self._idle -= 1
                return True
            self._threads += 1
        threading.Thread(target=self._serve, args=(self._jobs,), name="ditto-reads", daemon=True).start()
        return True

    def _serve(self, jobs: SimpleQueue[Callable[[], Callable[[], None]]]) -> None:
        while True:
            settle = jobs.get()()
            with self._lock:
                self._idle += 1  # before its caller goes on, whose next read then needs no other thread
            settle()
            del settle  # an idle thread holds no result


def _done(job: Future[T], work: Callable[[], T]) -> Callable[[], None]:
    """Do the work; the function that hands its outcome over."""
    try:
        return partial(job.set_result, work())
    except BaseException as error:  # noqa: BLE001 -- handed to the thread that waits, whatever it is
        return partial(job.set_exception, error)


READS: Final = ReadThreads()


@contextmanager
def watched(call: TaskCall) -> Iterator[None]:
    """Cancel the call's token as soon as the task is to stop, for as long as the block runs."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(call, ended), name="ditto-interruptions", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class AskingToken(CancelToken):
    """Asks at the check points of work that has many, so that short work pays for no thread."""

    __slots__ = ("_ask", "_at_s")

    def __init__(self, ask: Callable[[], DittoError | None]) -> None:
        super().__init__()
        self._ask = ask
        self._at_s = time.monotonic() + ASK_EVERY_S

    def raise_if_cancelled(self) -> None:
        if time.monotonic() >= self._at_s and not self.cancelled:
            _pass_on(self._ask, self)
            self._at_s = time.monotonic() + ASK_EVERY_S
        super().raise_if_cancelled()


def _watch(call: TaskCall, ended: threading.Event) -> None:
    while not ended.wait(ASK_EVERY_S) and not call.token.cancelled:
        _pass_on(call.interruption, call.token)


def _pass_on(ask: Callable[[], DittoError | None], token: CancelToken) -> None:
    try:
        reason = ask()
    except Exception as error:  # noqa: BLE001 -- of the broker's client: the work must not fail for it
        _log.warning("could not ask whether a task was cancelled: %s", type(error).__name__)
        return
    if reason is not None:
        token.cancel(reason)
