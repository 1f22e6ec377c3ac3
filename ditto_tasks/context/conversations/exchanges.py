"""A context's messages in order, each call with its results right behind it: what every export is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ditto_tasks.context.conversations.calls import Call, answered_by, calls_of
from ditto_tasks.context.conversations.marks import position_of, role_of, unwritable
from ditto_tasks.context.items import call_id
from ditto_tasks.context.models import ContextItem

Orphans: TypeAlias = Literal["refuse", "drop"]
Notes: TypeAlias = Literal["refuse", "drop", "user"]


@dataclass(frozen=True, slots=True)
class Result:
    """Where a call's result is: an item, and the block within it if its content is Anthropic's."""

    item: ContextItem
    block: int


@dataclass(slots=True)
class Exchange:
    """A message, and for each of its calls the result; without one the call was interrupted."""

    item: ContextItem
    role: str
    calls: tuple[Call, ...] = ()
    results: dict[int, Result] = field(default_factory=dict)

    @property
    def unanswered(self) -> list[int]:
        return [index for index in range(len(self.calls)) if index not in self.results]


def arrange(items: Sequence[ContextItem], *, orphans: Orphans, notes: Notes) -> list[Exchange]:
    """The exchanges of a context. A result that came late stands behind its call, as the last one given."""
    exchanges: list[Exchange] = []
    groups: dict[str, Exchange] = {}
    results: list[ContextItem] = []
    for item in in_order(items):
        role = role_of(item)
        if role == "tool":
            results.append(item)
        elif (exchange := _exchange(item, role, notes)) is not None:
            exchanges.append(exchange)
            if exchange.calls:
                groups[call_id(item) or item.id] = exchange
    for item in results:
        _attach(item, groups.get(call_id(item) or ""), orphans)
    return exchanges


def _exchange(item: ContextItem, role: str | None, notes: Notes) -> Exchange | None:
    if role is not None:
        return Exchange(item, role, calls_of(item))
    if notes == "refuse":
        raise unwritable(item, "is no message of a conversation")
    return Exchange(item, "user") if notes == "user" else None


def _attach(item: ContextItem, exchange: Exchange | None, orphans: Orphans) -> None:
    indexes = answered_by(item)
    if exchange is None or any(not 0 <= index < len(exchange.calls) for index in indexes):
        if orphans == "refuse":
            raise unwritable(item, "is the result of a call that is not there")
        return
    for block, index in enumerate(indexes):
        exchange.results[index] = Result(item, block)


def in_order(items: Sequence[ContextItem]) -> list[ContextItem]:
    """By place in the conversation; what has none follows what it stood behind. SELECT orders by score."""
    keys: list[int] = []
    last, sorted_already = -1, True
    for item in items:
        position = position_of(item)
        if position is not None:
            sorted_already = sorted_already and position >= last
            last = position
        keys.append(last)
    if sorted_already:
        return list(items)
    return [items[at] for at in sorted(range(len(items)), key=keys.__getitem__)]
