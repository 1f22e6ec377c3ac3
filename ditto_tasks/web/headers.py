"""Request headers that mean something to the router. Pure."""

from __future__ import annotations

import re
from typing import Final

from ditto_tasks.client.event_reader import JOINT
from ditto_tasks.client.streams import FIRST

_ETAG: Final = re.compile(r'"([^"\x00-\x1f\x7f]+)"')
_PLACE: Final = re.compile(r"\d{1,20}-\d{1,20}")


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
    """A version as `ETag` shows it and `If-Match` names it."""
    return f'"{version}"'


def prefers_async(prefer: str | None) -> bool:
    """True where the caller would rather have the task's address than wait for its end."""
    return prefer is not None and "respond-async" in {part.strip().lower() for part in prefer.split(",")}


def last_event(last_event_id: str | None, streams: int) -> str:
    """After which event a reader of this many streams goes on; the start where it has heard none."""
    if not last_event_id:
        return FIRST
    places = last_event_id.split(JOINT)
    if len(places) != streams or not all(place == FIRST or _PLACE.fullmatch(place) for place in places):
        raise HeaderError("Last-Event-ID", "is no id of an event of this task")
    return last_event_id
