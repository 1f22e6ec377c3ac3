"""The strict JSON content type of tasks and results: text is data, and what comes back is what was sent.

kombu's own JSON gives `__type__` objects a meaning, sends NaN and turns int keys into strings. Here the
domain is checked, so that orjson may write it. Content was checked by the sender with a better path;
the 256 levels leave room for the canvas around it.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from kombu import serialization

from ditto_tasks.json_values import FrozenDict, FrozenList, decode, encode
from ditto_tasks.task import Reply

NAME: Final = "ditto"
CONTENT_TYPE: Final = "application/x-ditto+json"
CELERY_DEPTH: Final = 60  # Celery's own structures around content; a cycle among them ends here


def dumps(value: object) -> bytes:
    """The bytes of a message body or result; InvalidJson with the path of what is not JSON."""
    return encode(_plain(value, CELERY_DEPTH))


def loads(data: bytes | str | memoryview) -> object:
    """The value of a body: plain dicts, lists and scalars; InvalidJson for anything else."""
    return decode(bytes(data) if isinstance(data, memoryview) else data)


def register_content_type() -> None:
    """Make the content type known to kombu; idempotent."""
    registry: Any = serialization.registry  # type: ignore[attr-defined]  # missing in the stubs
    if NAME not in registry.name_to_type:
        registry.register(NAME, dumps, loads, content_type=CONTENT_TYPE, content_encoding="utf-8")


def _plain(value: object, levels: int) -> object:
    """Celery's structures as JSON ones: tuples, signatures, datetimes, replies. Content is left alone."""
    kind = type(value)
    if kind in _AS_IT_IS or levels == 0:
        return value
    if isinstance(value, Reply):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, levels - 1) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


_AS_IT_IS: Final = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList})
