"""Notices while a handler works that its task was cancelled or is out of time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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


def _watch(call: TaskCall, ended: threading.Event) -> None:
    while not ended.wait(ASK_EVERY_S) and not call.token.cancelled:
        try:
            reason = call.interruption()
        except Exception as error:  # noqa: BLE001 -- of the broker's client: the work must not fail for it
            _log.warning("could not ask whether a task was cancelled: %s", type(error).__name__)
            continue
        if reason is not None:
            call.token.cancel(reason)
