"""What of a conversation stays or goes together: call groups within turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from ditto_tasks.context.conversations.calls import answered_by, count_calls
from ditto_tasks.context.items import call_id, is_protected
from ditto_tasks.context.models import ContextItem
from ditto_tasks.json_values import JsonValue

Kind: TypeAlias = Literal["system", "user", "assistant", "orphan", "note"]

PREAMBLE: Final = 0  # the turn of what was said before the user said anything

_KINDS: Final[dict[JsonValue, Kind]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "orphan",
}
_FLAGS: Final = frozenset({"protected", "safety", "currentGoal", "pending"})


class Unit(NamedTuple):
    """Items that stay or go together: a message, or one with calls and all their results.

    `turn` counts from the user's messages; system messages and notes are of none. `unanswered` are
    calls without a result, each of which gets a stand-in in an export.
    """

    kind: Kind
    positions: list[int]
    turn: int | None
    unanswered: int
    protected: bool


def units_of(items: Sequence[ContextItem]) -> list[Unit]:
    """The units of items that are in the order of their conversation, by first member."""
    members: dict[str | int, list[int]] = {}
    for at, item in enumerate(items):
        group = call_id(item)
        if group is not None:
            members.setdefault(group, []).append(at)
        else:
            members[at] = [at]
    units: list[Unit] = []
    turn, last = PREAMBLE, "assistant"
    for positions in members.values():
        if len(positions) == 1:
            kind, unanswered, protected = _alone(items[positions[0]])
        else:
            kind, unanswered, protected = _together([items[at] for at in positions])
        of_turn = None
        if kind in ("user", "assistant"):
            turn += kind == "user" and last != "user"  # several user messages in a row are one turn's
            last, of_turn = kind, turn
        units.append(Unit(kind, positions, of_turn, unanswered, protected))
    return units


def _alone(item: ContextItem) -> tuple[Kind, int, bool]:
    """Kind of a unit of one item, its calls without a result, and whether it is protected."""
    metadata = item.metadata
    if not metadata:
        return "note", 0, False
    role = metadata.get("role")
    kind = _KINDS.get(role, "note") if isinstance(role, str) else "note"
    calls = count_calls(item) if kind == "assistant" and not isinstance(item.content, str) else 0
    return kind, calls, kind == "system" or (not _FLAGS.isdisjoint(metadata) and is_protected(item))


def _together(members: list[ContextItem]) -> tuple[Kind, int, bool]:
    """The same of a group, whose kind is that of the first member that is no result."""
    kind: Kind = "orphan"
    calls, protected = 0, False
    answered: set[int] = set()
    for item in members:
        of_member, more, also = _alone(item)
        protected = protected or also
        if of_member == "orphan":
            answered.update(answered_by(item))
        elif kind == "orphan":
            kind, calls = of_member, more
    return kind, calls - len(answered) if calls else 0, protected
