"""What reported usage teaches an estimator: a ratio, kept within bounds, as a pure value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

TRUST: Final = 2_000  # tokens of "as estimated" that reports have to outweigh
MEMORY: Final = 2_000_000  # tokens; older reports then count half, so that a changed model is learned
LOWEST: Final = 0.5
HIGHEST: Final = 2.0


@dataclass(frozen=True, slots=True)
class Correction:
    """Sums of estimated and reported tokens; without reports it changes nothing."""

    estimated: float = 0.0
    reported: float = 0.0

    @property
    def ratio(self) -> float:
        """Reported by estimated tokens, from 0.5 to 2."""
        return min(HIGHEST, max(LOWEST, (self.reported + TRUST) / (self.estimated + TRUST)))

    def learned(self, estimated: int, reported: int) -> Correction:
        """With one more report. One that is no usage (nothing, or below it) teaches nothing."""
        if estimated <= 0 or reported <= 0:
            return self
        keep = 0.5 if self.estimated > MEMORY else 1.0
        reported = min(
            max(reported, math.ceil(estimated / 10)), estimated * 10
        )  # one absurd report is not all
        return Correction(self.estimated * keep + estimated, self.reported * keep + reported)

    def apply(self, tokens: int) -> int:
        return math.ceil(tokens * self.ratio - 1e-9)
