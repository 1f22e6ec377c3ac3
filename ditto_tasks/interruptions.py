"""Notices while a handler works that its task was cancelled or is out of time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import DittoError
from ditto_tasks.task import TaskCall

_log = logging.getLogger(__name__)

ASK_EVERY_S: Final = 0.5  # one round trip each; a cancellation is noticed this late


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
