"""How much a run may have out: everything while nobody else is at work, and next to nothing beside others."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Pace:
    """Starts with `least` calls out and doubles with each answer, up to `most`, as TCP's slow start does.

    An answer from a worker that was at work for others takes it back to `least` for `quiet_s` seconds: where
    all cores are taken, whatever a run computes is time that others wait.
    """

    least: int
    most: int
    quiet_s: float
    limit: int = 0
    gives_way: bool = False  # takes the least because of others, and not because it begins
    _beside_until_s: float = -math.inf

    def __post_init__(self) -> None:
        self.limit = min(self.least, self.most)

    def heard(self, *, beside: bool, now_s: float) -> None:
        """A call was answered, by a worker that was at work for others, too, or was not."""
        if beside:
            self._beside_until_s = now_s + self.quiet_s
            self.limit, self.gives_way = min(self.least, self.most), True
        elif now_s >= self._beside_until_s:
            self.gives_way = False
            self.limit = min(2 * self.limit, self.most)

    @property
    def is_least(self) -> bool:
        """Whether others are, or may be, at work."""
        return self.limit <= self.least
