"""Opaque cursors: where a page ended, bound to the query that it belongs to."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence

from ditto_tasks.canonical import canonical_json
from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import InvalidJson, JsonValue, decode, encode
from ditto_tasks.memory.models import Query

Position = tuple[str | int, ...]


def query_digest(query: Query, namespace: str) -> str:
    """What a cursor is bound to: namespace, filter and order, not the page's size."""
    order: list[JsonValue] = [f"{term.field} {term.direction}" for term in query.order_by]
    text = canonical_json([namespace, query.filter, order])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def write_cursor(position: Sequence[str | int], digest: str) -> str:
    """The cursor of the page that ended at ``position`` (the order's values of its last record)."""
    return base64.urlsafe_b64encode(encode([digest, *position])).decode("ascii").rstrip("=")


def read_cursor(cursor: str, digest: str, *, size: int) -> Position:
    """The position of ``size`` values, or INVALID_INPUT for a cursor that is not of this query."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        parts = decode(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (UnicodeEncodeError, binascii.Error, InvalidJson):
        raise _refused() from None
    if not isinstance(parts, list) or len(parts) != size + 1 or parts[0] != digest:
        raise _refused()
    if not all(type(part) in (str, int) for part in parts):
        raise _refused()
    return tuple(part for part in parts[1:] if isinstance(part, (str, int)))


def _refused() -> MemoryError:
    return MemoryError.invalid_input("/cursor", "not a cursor of this query")
