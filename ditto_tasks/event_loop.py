"""Lets blocking code run coroutines that are really cancelled: on a deadline or by a token."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TypeVar

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import DittoError

T = TypeVar("T")
POLL_S = 0.05  # how late a cancellation may be noticed
CLEAN_UP_S = 2.0  # what a cancelled coroutine gets to close its connections
LAST_CLEAN_UP_S = 8.0  # what all get when the loop is closed: ending a child process that hangs takes 6.5 s


class LoopThread:
    """An asyncio loop on a thread of its own, started at first use.

    Made after a fork, closed by its maker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(
        self,
        work: Callable[[], Coroutine[object, object, T]],
        *,
        timeout_s: float,
        token: CancelToken,
        on_timeout: DittoError,
    ) -> T:
        """Return the coroutine's result; past the limit it is cancelled and has ended before this raises."""
        ended = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_signalled(work, ended), self._running_loop())
        try:
            return _result(future, timeout_s, token, on_timeout)
        finally:
            if not future.done():
                future.cancel()
                ended.wait(CLEAN_UP_S)

    def close(self, last: Callable[[], Coroutine[object, object, None]] | None = None) -> None:
        """If the loop ever ran: let what was cancelled end, run a last coroutine, stop the loop's thread."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cleaned_up(), loop).result()
        if last is not None:
            asyncio.run_coroutine_threadsafe(last(), loop).result(CLEAN_UP_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLEAN_UP_S)
        loop.close()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return self._loop


async def _cleaned_up() -> None:
    """Wait for the coroutines that are still closing what they opened."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=LAST_CLEAN_UP_S)


async def _signalled(work: Callable[[], Coroutine[object, object, T]], ended: threading.Event) -> T:
    try:
        return await work()
    finally:
        ended.set()


def _result(future: Future[T], timeout_s: float, token: CancelToken, on_timeout: DittoError) -> T:
    end = time.monotonic() + timeout_s
    while (left := end - time.monotonic()) > 0:
        token.raise_if_cancelled()
        try:
            return future.result(min(POLL_S, left))
        except TimeoutError:
            if future.done():  # the work's own timeout, or done just now
                return future.result()
    raise on_timeout
