"""The filter of QUERY and SEARCH, and the sortable text under which metadata is indexed."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ditto_tasks.canonical import canonical_json
from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonObject, JsonValue

MAX_FACET_CHARS = 120  # of a path or a value; longer ones are cut and told apart by a digest
RANGE_OPERATORS = ("gt", "gte", "lt", "lte")


@dataclass(frozen=True, slots=True)
class Bound:
    """One side of a term on metadata: ``operator`` is "eq" or one of RANGE_OPERATORS."""

    path: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """A filter that every record must pass in all of its terms."""

    key: str | None = None
    namespace: str | None = None
    bounds: tuple[Bound, ...] = ()


def parse_filter(wire: Mapping[str, JsonValue] | None) -> MemoryFilter:
    """The filter, or UNSUPPORTED_FILTER for anything that it doesn't know: no term is ever ignored."""
    terms = dict(wire or {})
    key = _text(terms, "key")
    namespace = _text(terms, "namespace")
    kind = _text(terms, "kind")
    metadata = terms.pop("metadata", {})
    if terms:
        raise _unsupported(f"unknown term {sorted(terms)[0]!a}")
    if not isinstance(metadata, dict):
        raise _unsupported("metadata must be an object")
    bounds = [] if kind is None else [Bound(facet_path("kind"), "eq", facet_value(kind))]
    for path, condition in metadata.items():
        bounds.extend(_bounds(path, condition))
    return MemoryFilter(key, namespace, tuple(bounds))


def facets(metadata: JsonObject | None) -> frozenset[tuple[str, str]]:
    """(path, value) of everything in metadata that a filter can name; arrays count as a whole."""
    return frozenset((facet_path(path), facet_value(value)) for path, value in _leaves(metadata or {}))


def facet_path(path: str) -> str:
    """A dotted path as it is indexed."""
    return _cut(_storable(path))


def facet_value(value: JsonValue) -> str:
    """A JSON value as text that sorts as the value does, within its own type."""
    match value:
        case None:
            return "z"
        case bool():
            return f"b{value:d}"
        case int() | float():
            return "n" + _sortable_double(float(value))
        case str():
            return "s" + _cut(_storable(value))
    return "j" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _text(terms: dict[str, JsonValue], name: str) -> str | None:
    value = terms.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise _unsupported(f"{name} must be text")
    return value


def _bounds(path: str, condition: JsonValue) -> Iterator[Bound]:
    if not isinstance(condition, dict):
        yield Bound(facet_path(path), "eq", facet_value(condition))
        return
    if not condition or not condition.keys() <= set(RANGE_OPERATORS):
        raise _unsupported("a range takes gt, gte, lt and lte")
    for operator, value in condition.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise _unsupported(f"{operator} takes a number or text")
        yield Bound(facet_path(path), operator, facet_value(value))


def _leaves(metadata: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    pending = [("", metadata)]
    while pending:
        prefix, parent = pending.pop()
        for key, value in parent.items():
            if isinstance(value, dict):
                pending.append((f"{prefix}{key}.", value))
            else:
                yield prefix + key, value


def _sortable_double(number: float) -> str:
    """16 hex digits in the order of the numbers; -0 is 0."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    return f"{bits ^ (0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else 1 << 63):016x}"


def _storable(text: str) -> str:
    """Text without NUL and lone surrogates, which not every database takes; still one to one."""
    if text.isascii() and "\0" not in text and "\x01" not in text:
        return text
    escaped = text.replace("\x01", "\x01\x01").replace("\0", "\x010")
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str) -> str:
    if len(text) <= MAX_FACET_CHARS:
        return text
    return (
        text[:MAX_FACET_CHARS]
        + "\x02"
        + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    )


def _unsupported(reason: str) -> MemoryError:
    return MemoryError("UNSUPPORTED_FILTER", f"filter: {reason}")
