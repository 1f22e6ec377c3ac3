"""Whether a process is at work for those who wait: a batch run asks, and takes less where it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Presence:
    """The calls of one process that are no batch run's. Thread-safe, since each step is one of a dict's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at_work: dict[str, None] = {}
        self._last_s = -math.inf

    def begin(self, task_id: str) -> None:
        """A call starts."""
        self._at_work[task_id] = None

    def end(self, task_id: str) -> None:
        """It has ended, however."""
        self._at_work.pop(task_id, None)
        self._last_s = self._clock()

    def within(self, seconds: float) -> bool:
        """Whether such a call is at work now, or was within so many seconds."""
        return bool(self._at_work) or self._clock() - self._last_s < seconds
