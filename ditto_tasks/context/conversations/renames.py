"""Ids and names as a provider takes them: changed only where they must be, always in the same way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from ditto_tasks.context.models import ContextItem


@dataclass(frozen=True, slots=True)
class Rename:
    """What an export calls differently. `index` is the call's place in its message."""

    kind: Literal["call", "tool", "name"]
    item_id: str
    index: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a provider accepts as a name or an id."""

    allowed: re.Pattern[str]
    longest: int
    otherwise: str

    def fit(self, name: str) -> str:
        """The name itself if it is accepted, else the nearest that is."""
        if self.allowed.fullmatch(name) and len(name) <= self.longest:
            return name
        kept = "".join(each if self.allowed.fullmatch(each) else "_" for each in name)
        return kept[: self.longest] or self.otherwise


@dataclass(slots=True)
class CallIds:
    """Gives out ids that are unique in a message, or in the whole list where a provider asks for that."""

    rule: NameRule
    renames: list[Rename]
    reserved: frozenset[str]  # all that occur: a new id never takes one that is still to come
    everywhere: bool
    _taken: set[str] = field(default_factory=set)

    def assign(self, item: ContextItem, ids: Iterable[str]) -> list[str]:
        """The ids of a message's calls, in order."""
        if not self.everywhere:
            self._taken.clear()
        return [self._one(item, index, each) for index, each in enumerate(ids)]

    def _one(self, item: ContextItem, index: int, old: str) -> str:
        new = self.rule.fit(old)
        if new in self._taken or (new != old and new in self.reserved):
            new = self._free(new)
        self._taken.add(new)
        if new != old:
            self.renames.append(Rename("call", item.id, index, old, new))
        return new

    def _free(self, base: str) -> str:
        number = 2
        while True:
            suffix = f"-{number}"
            candidate = base[: self.rule.longest - len(suffix)] + suffix
            if candidate not in self._taken and candidate not in self.reserved:
                return candidate
            number += 1


def renamed(
    rule: NameRule,
    kind: Literal["tool", "name"],
    item: ContextItem,
    index: int,
    old: str,
    renames: list[Rename],
) -> str:
    """A tool's or an author's name as the provider takes it."""
    new = rule.fit(old)
    if new != old:
        renames.append(Rename(kind, item.id, index, old, new))
    return new
