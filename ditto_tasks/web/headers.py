"""Request headers that mean something to the router. Pure."""

from __future__ import annotations

import re
from typing import Final

_ETAG: Final = re.compile(r'"([^"\x00-\x1f\x7f]+)"')
_POSITION: Final = re.compile(r"\d{1,20}-\d{1,20}")
_START: Final = "0"


class HeaderError(ValueError):
    """A header that cannot be taken; says why."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def expected_version(if_match: str | None) -> str | None:
    """The version that `If-Match` names; absent is None."""
    if if_match is None:
        return None
    match = _ETAG.fullmatch(if_match.strip())
    if match is None:
        raise HeaderError("If-Match", 'must be one version as it stood in an ETag: "…"')
    return match[1]


def etag(version: str) -> str:
    return f'"{version}"'


def prefers_async(prefer: str | None) -> bool:
    """True where the caller would rather have the task's address than wait for its end."""
    return prefer is not None and "respond-async" in {part.strip().lower() for part in prefer.split(",")}


def positions(last_event_id: str | None, streams: int) -> list[str]:
    """Where to go on in each stream, after the event with this id."""
    if not last_event_id:
        return [_START] * streams
    parts = last_event_id.split("_")
    if len(parts) != streams or not all(part == _START or _POSITION.fullmatch(part) for part in parts):
        raise HeaderError("Last-Event-ID", "is no id of an event of this task")
    return parts
