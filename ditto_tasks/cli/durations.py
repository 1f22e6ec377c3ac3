"""Durations as people type them: `90s`, `30m`, `1h`, `2d`."""

from __future__ import annotations

import re
from typing import Final

import click

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(text: str) -> int:
    """The ms of a number with a unit; the type of an option."""
    found = re.fullmatch(r"(\d{1,9})(ms|s|m|h|d)", text.strip())
    if found is None or int(found[1]) == 0:
        raise click.BadParameter("a number above 0 and a unit: 90s, 30m, 1h, 2d")
    return int(found[1]) * UNITS_MS[found[2]]


def shown(ms: int) -> str:
    """A duration as a person reads it: its two largest units."""
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, ms = divmod(ms, UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
