"""Which words are common, remembered for a while: what thousands of records have now they have tomorrow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

KEPT_S: Final = 600.0
MOST: Final = 10_000  # words; then all are forgotten, which costs one look at each


class FrequentWords:
    """Thread-safe: each step is one of a dict's own. Rare words are asked about each time: that is cheap."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._until_s: dict[str, float] = {}

    def among(self, words: Sequence[str], look: Callable[[Sequence[str]], set[str]]) -> set[str]:
        """The common ones of these words; ``look`` asks the database about those that are not known."""
        now_s = self._clock_s()
        known = {word for word in words if self._until_s.get(word, 0.0) > now_s}
        unknown = [word for word in words if word not in known]
        found = look(unknown) if unknown else set()
        if len(self._until_s) + len(found) > MOST:
            self._until_s.clear()
        self._until_s.update(dict.fromkeys(found, now_s + KEPT_S))
        return known | found
