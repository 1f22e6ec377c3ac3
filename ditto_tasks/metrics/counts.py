"""Counts added up in one process, and flushed to the deployment's in one round trip every few seconds."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from celery.utils.log import get_logger

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script

logger = get_logger(__name__)

FLUSH_S: Final = 2.0  # a scrape is that much behind; nothing else waits for it
TTL_S: Final = 90 * 86_400  # after the last count; Prometheus takes the loss for a restart
SEPARATOR: Final = "|"  # between a count's name and its labels


class Counts:
    """Thread-safe. A forked child counts for itself; what its parent had not flushed stays the parent's."""

    def __init__(self, deployment: str, clients: Callable[[], AbstractContextManager[BrokerClient]]) -> None:
        self._key = Keys(deployment).metrics
        self._clients = clients
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._sums: Counter[str] = Counter()
        self._timer: threading.Timer | None = None

    def add(self, name: str, number: int = 1) -> None:
        """Count; the names are those of `exposition`."""
        self.add_all({name: number})

    def add_all(self, numbers: Mapping[str, int]) -> None:
        """Count several at once."""
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
            self._sums, self._timer = Counter(), None
        with self._lock:
            self._sums.update(numbers)
            if self._timer is None:
                self._timer = threading.Timer(FLUSH_S, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Send what was counted; if that fails it is sent with what comes next."""
        with self._lock:
            sums, self._sums, self._timer = self._sums, Counter(), None
        numbers = [text for name, number in sums.items() for text in (name, str(number))]
        if not numbers:
            return
        try:
            with self._clients() as client:
                run_script(client, "ditto_tasks.metrics", "add", [self._key], TTL_S, *numbers)
        except Exception as exc:  # noqa: BLE001 -- counting must never disturb; the driver's errors are many
            logger.warning("Counts could not be sent and are kept: %s", type(exc).__name__)
            with self._lock:
                self._sums.update(sums)
