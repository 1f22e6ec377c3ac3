"""What a Redis server replies, whether or not its client decodes it. Pure."""

from __future__ import annotations

from typing import cast


def text(value: object) -> str:
    """A string of a reply."""
    return value.decode() if isinstance(value, bytes) else str(value)


def clock_ms(time: object) -> int:
    """The reply of TIME as ms since the epoch."""
    seconds, microseconds = cast("tuple[int, int]", time)
    return int(seconds) * 1000 + int(microseconds) // 1000
