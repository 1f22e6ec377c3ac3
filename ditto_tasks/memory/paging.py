"""QUERY's order and pages in Python, for stores whose database has neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Final

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.cursors import query_digest, read_cursor, write_cursor
from ditto_tasks.memory.models import MemoryItem, OrderBy, Query, QueryPage

Value = str | int


@dataclass(frozen=True, slots=True)
class Stored:
    """A record with its times, which are the store's own."""

    item: MemoryItem
    created_ms: int
    updated_ms: int


_FIELDS: Final[Mapping[str, Callable[[Stored], Value]]] = {
    "id": lambda stored: stored.item.id,
    "key": lambda stored: stored.item.key or "",
    "createdAt": lambda stored: stored.created_ms,
    "updatedAt": lambda stored: stored.updated_ms,
}


def page_of(found: Sequence[Stored], query: Query, namespace: str) -> QueryPage:
    """The page of all matching records that the query asks for."""
    order = total_order(query.order_by)
    digest = query_digest(query, namespace)
    placed = sorted(((position(each, order), each) for each in found), key=cmp_to_key(_comparison(order)))
    if query.cursor is not None:
        last = read_cursor(query.cursor, digest, size=len(order))
        placed = [each for each in placed if compare(each[0], last, order) > 0]
    page = placed[: query.limit]
    cursor = write_cursor(page[-1][0], digest) if len(placed) > len(page) else None
    return QueryPage.assemble({"items": tuple(each.item for _, each in page), "next_cursor": cursor})


def total_order(order_by: Sequence[OrderBy]) -> tuple[OrderBy, ...]:
    """The order with the id as its last term; UNSUPPORTED_FILTER for an unknown field."""
    if any(term.field not in _FIELDS for term in order_by):
        raise MemoryError("UNSUPPORTED_FILTER", f"orderBy: the fields are {', '.join(_FIELDS)}")
    if any(term.field == "id" for term in order_by):
        return tuple(order_by)
    return (*order_by, OrderBy(field="id"))


def position(stored: Stored, order: Sequence[OrderBy]) -> tuple[Value, ...]:
    """The values that a record has in an order."""
    return tuple(_FIELDS[term.field](stored) for term in order)


def compare(left: Sequence[Value], right: Sequence[Value], order: Sequence[OrderBy]) -> int:
    """Below, at or above 0, as `left` comes before, with or after `right`."""
    for one, other, term in zip(left, right, order, strict=True):
        if one != other:
            before = str(one) < str(other) if isinstance(other, str) else int(one) < int(other)
            return -1 if before == (term.direction == "asc") else 1
    return 0


def _comparison(
    order: Sequence[OrderBy],
) -> Callable[[tuple[tuple[Value, ...], Stored], tuple[tuple[Value, ...], Stored]], int]:
    return lambda left, right: compare(left[0], right[0], order)
