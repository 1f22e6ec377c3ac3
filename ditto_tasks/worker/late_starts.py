"""STARTED, stored only for tasks that still run after a while.

Celery stores it before every task: two round trips, as many as a short task makes for itself, for a state
that is over before anybody could ask for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from celery.utils.log import get_logger

from ditto_tasks.errors import raised

logger = get_logger(__name__)

AFTER_S: Final = 0.25  # how long a task runs before it counts as started in the result backend


@dataclass(slots=True, eq=False)
class _Run:
    since_s: float
    store: Callable[[], object]
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: bool = False  # it has ended, or is marked already


class LateStarts:
    """One thread for all tasks of a process, which ends when none runs. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: set[_Run] = set()
        self._watched = False

    @contextmanager
    def watching(self, store: Callable[[], object]) -> Iterator[None]:
        """Call `store` once if the block takes long; never after the block, whose result comes next."""
        run = _Run(time.monotonic(), store)
        self._begin(run)
        try:
            yield
        finally:
            self._runs.discard(run)
            with run.lock:
                run.over = True

    def _begin(self, run: _Run) -> None:
        with self._lock:
            self._runs.add(run)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="ditto-late-starts", daemon=True).start()

    def _watch(self) -> None:
        while self._goes_on():
            time.sleep(AFTER_S)
            latest_s = time.monotonic() - AFTER_S
            for run in [run for run in self._runs.copy() if run.since_s < latest_s]:
                _mark(run)

    def _goes_on(self) -> bool:
        with self._lock:
            self._watched = bool(self._runs)
            return self._watched


def _mark(run: _Run) -> None:
    with run.lock:  # the task's end waits for it: a late STARTED must not replace its result
        if run.over:
            return
        run.over = True
        try:
            run.store()
        except Exception as exc:  # noqa: BLE001 -- of the result backend's client: the task itself goes on
            logger.warning("STARTED was not stored: %s", raised(exc))
