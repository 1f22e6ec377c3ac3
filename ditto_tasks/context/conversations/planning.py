"""Which units of a conversation stay within a budget. Pure arithmetic: sizes and scores come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ditto_tasks.context.checks import refuse
from ditto_tasks.context.compression import Budget
from ditto_tasks.context.conversations.units import PREAMBLE, Unit
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject

SystemRule: TypeAlias = Literal["keep", "drop"]
TurnRule: TypeAlias = Literal["split", "whole"]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What may go when it is tight.

    `system`: "keep" refuses a budget that the system's messages do not fit in, "drop" goes on without
    them. `latest_turn`: "split" lets the oldest call groups of the latest turn go, "whole" does not.
    """

    system: SystemRule = "keep"
    latest_turn: TurnRule = "split"

    @classmethod
    def parse(cls, options: JsonObject | None) -> PlanOptions:
        """From a strategy's options; an unknown one is refused rather than ignored."""
        given = options or {}
        for key in given.keys() - {"system", "latestTurn"}:
            raise refuse(f"/strategy/options/{key}", "is no option of the conversation strategy")
        for key, choices in (("system", get_args(SystemRule)), ("latestTurn", get_args(TurnRule))):
            if given.get(key, choices[0]) not in choices:
                raise refuse(f"/strategy/options/{key}", f"must be one of {', '.join(choices)}")
        system: SystemRule = "drop" if given.get("system") == "drop" else "keep"
        return cls(system, "whole" if given.get("latestTurn") == "whole" else "split")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of each item, and of the stand-ins that an export adds for what is missing."""

    items: Sequence[int]
    interrupted: int = 0  # the result of a call without one
    continued: int = 0  # the user's message in front of a conversation that begins with the assistant's

    def tokens(self, unit: Unit) -> int:
        tokens = unit.unanswered * self.interrupted
        for at in unit.positions:
            tokens += self.items[at]
        return tokens + self.continued if unit.turn == PREAMBLE else tokens


@dataclass(slots=True)
class Plan:
    """Which units stay and why, and why the others go; by the unit's place in the list of units."""

    kept: dict[int, str] = field(default_factory=dict)
    dropped: dict[int, str] = field(default_factory=dict)
    items: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Planner:
    units: Sequence[Unit]
    costs: list[int]
    scores: Sequence[float]  # of each unit
    budget: Budget
    plan: Plan

    def size(self, chosen: Iterable[int]) -> tuple[int, int]:
        listed = [index for index in chosen if index not in self.plan.kept]
        return sum(len(self.units[at].positions) for at in listed), sum(self.costs[at] for at in listed)

    def fits(self, chosen: Iterable[int]) -> bool:
        items, tokens = self.plan.items, self.plan.tokens
        for index in chosen:
            if index not in self.plan.kept:
                items += len(self.units[index].positions)
                tokens += self.costs[index]
        return self.budget.holds(items, tokens)

    def keep(self, chosen: Iterable[int], reason: str) -> None:
        for index in chosen:
            if index not in self.plan.kept:
                self.plan.items += len(self.units[index].positions)
                self.plan.tokens += self.costs[index]
                self.plan.kept[index] = reason

    def keep_latest(self, turn: int) -> None:
        """The latest turn's units from the newest back; if not all fit, no earlier turn does either."""
        rest = [at for at, unit in enumerate(self.units) if unit.turn == turn and at not in self.plan.kept]
        while rest and self.fits(rest[-1:]):
            self.keep([rest.pop()], "latest turn")
        if rest:
            earlier = [at for at, unit in enumerate(self.units) if unit.turn is not None and unit.turn < turn]
            gone = [at for at in (*earlier, *rest) if at not in self.plan.kept]
            self.plan.dropped.update(dict.fromkeys(gone, "no room: the latest turn is cut"))

    def keep_earlier(self, latest: int | None) -> None:
        """Whole turns, and notes, the best first; one that does not fit makes room for the next."""
        kept, dropped = self.plan.kept, self.plan.dropped
        blocks: dict[tuple[bool, int], list[int]] = {}
        for index, unit in enumerate(self.units):
            if (unit.turn is None or unit.turn != latest) and index not in kept and index not in dropped:
                key = (True, index) if unit.turn is None else (False, unit.turn)
                blocks.setdefault(key, []).append(index)
        for block in sorted(blocks.values(), key=lambda each: -max([self.scores[at] for at in each])):
            if self.fits(block):
                self.keep(block, "fits")
            else:
                self.plan.dropped.update(dict.fromkeys(block, "no room"))


def plan_units(
    units: Sequence[Unit], sizes: Sizes, scores: Sequence[float], budget: Budget, options: PlanOptions
) -> Plan:
    """What stays: what must, then the latest turn, then whole earlier turns by score.

    BUDGET_TOO_SMALL, with the least budget that would do, if what must stay does not fit.
    """
    planner = _Planner(units, [sizes.tokens(unit) for unit in units], scores, budget, Plan())
    orphans = {at: "result without its call" for at, unit in enumerate(units) if unit.kind == "orphan"}
    planner.plan.dropped.update({at: why for at, why in orphans.items() if not units[at].protected})
    latest = max((unit.turn for unit in units if unit.turn is not None), default=None)
    required = _required(units, latest, options)
    if not planner.fits(required) and options.system == "drop":
        systems = {at for at, why in required.items() if why == "system"}
        planner.plan.dropped.update(dict.fromkeys(systems, "no room: the strategy may drop it"))
        required = {at: why for at, why in required.items() if at not in systems}
    if not planner.fits(required):
        raise _too_small(planner, required)
    for index, reason in required.items():
        planner.keep([index], reason)
    if latest is not None:
        planner.keep_latest(latest)
    planner.keep_earlier(latest)
    return planner.plan


def _required(units: Sequence[Unit], latest: int | None, options: PlanOptions) -> dict[int, str]:
    pending = {unit.turn for unit in units if unit.unanswered}
    spoken = any(unit.kind == "user" for unit in units)
    required: dict[int, str] = {}
    for index, unit in enumerate(units):
        if unit.kind == "system":
            required[index] = "system"
        elif unit.protected:
            required[index] = "protected"
        elif unit.unanswered:
            required[index] = "call without a result"
        elif unit.kind == "user" and unit.turn == latest:
            required[index] = "latest user turn"
        elif unit.kind == "user" and unit.turn in pending:
            required[index] = "asked for a call without a result"
        elif unit.turn == latest is not None and options.latest_turn == "whole":
            required[index] = "latest turn"
    newest = next((at for at in reversed(range(len(units))) if units[at].turn is not None), None)
    if not spoken and newest is not None:
        required.setdefault(newest, "latest message")
    return required


def _too_small(planner: _Planner, required: Iterable[int]) -> ContextError:
    items, tokens = planner.size(required)
    budget = planner.budget
    least = {"least_items": items, "max_items": budget.items}
    if budget.tokens is not None:
        least |= {"least_tokens": tokens, "max_tokens": budget.tokens}
    wanted = f"{items} items" if budget.tokens is None else f"{items} items and {tokens} tokens"
    return ContextError("BUDGET_TOO_SMALL", f"what must stay of the conversation needs {wanted}", least)
