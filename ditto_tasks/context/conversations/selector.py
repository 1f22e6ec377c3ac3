"""The strategies named `conversation`, for SELECT and for COMPRESS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.compression import Budget, token_costs
from ditto_tasks.context.conversations.exchanges import in_order
from ditto_tasks.context.conversations.marks import CONTINUED, INTERRUPTED
from ditto_tasks.context.conversations.planning import Plan, PlanOptions, Sizes, plan_units
from ditto_tasks.context.conversations.units import Unit, units_of
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.context.selection import may_be_remembered, query_terms, score_of
from ditto_tasks.context.steps import Steps, drive
from ditto_tasks.context.text import estimated_tokens

NAME: Final = "conversation"

_STAND_INS: Final = tuple(
    ContextItem.assemble({"id": text, "content": text, "metadata": None}) for text in (INTERRUPTED, CONTINUED)
)


@dataclass(frozen=True, slots=True)
class ConversationSelector:
    """SELECT's candidates are all that fits, in the order of the conversation, so that all are selected.

    Kept are the system's messages, protected items, the latest user turn and calls without a result;
    then call groups of the latest turn from the newest back, then whole earlier turns by score.
    """

    def select(self, request: SelectInput, execution: ContextExecution) -> Sequence[ContextItem]:
        """All at once, for a sync token estimator."""
        return drive(self.steps(request, execution))

    def steps(self, request: SelectInput, execution: ContextExecution) -> Steps[Sequence[ContextItem]]:
        budget = Budget.of(request, execution)
        options = PlanOptions.parse(request.strategy.options if request.strategy else None)
        items = in_order(request.context.items if request.context else ())
        if request.purpose == "memory":
            items = _eligible(items, execution)
        query = query_terms(request)
        scores = [score_of(item, at, len(items), request.purpose, query) for at, item in enumerate(items)]
        return (yield from _planned(items, scores, budget, options, execution))


@dataclass(frozen=True, slots=True)
class ConversationCompressor:
    """COMPRESS by the same rules: whole turns and call groups go, in the original order of what stays."""

    def compress(self, request: CompressInput, execution: ContextExecution) -> Context:
        """All at once, for a sync token estimator."""
        return drive(self.steps(request, execution))

    def steps(self, request: CompressInput, execution: ContextExecution) -> Steps[Context]:
        before = request.context.items if request.context else ()
        items = in_order(before)
        options = PlanOptions.parse(request.strategy.options if request.strategy else None)
        options = replace(options, system="keep")  # the node refuses a result without what is protected
        scores = [score_of(item, at, len(items), "infer", frozenset()) for at, item in enumerate(items)]
        budget = Budget.of(request, execution)
        kept = {item.id for item in (yield from _planned(items, scores, budget, options, execution))}
        return Context.assemble({"items": tuple(item for item in before if item.id in kept)})


def _planned(
    items: Sequence[ContextItem],
    scores: Sequence[float],
    budget: Budget,
    options: PlanOptions,
    execution: ContextExecution,
) -> Steps[Sequence[ContextItem]]:
    costs = yield from _costs(items, budget, execution)
    units = units_of(items)
    interrupted, continued = 0, 0
    if any(unit.unanswered or unit.turn == 0 for unit in units):
        interrupted, continued = yield from _costs(_STAND_INS, budget, execution)
    unit_scores = [max([scores[at] for at in unit.positions]) for unit in units]
    plan = plan_units(units, Sizes(costs, interrupted, continued), unit_scores, budget, options)
    _note(execution, items, units, plan, scores, None if budget.tokens is None else costs)
    kept = {at for index in plan.kept for at in units[index].positions}
    return [item for at, item in enumerate(items) if at in kept]


def _costs(items: Sequence[ContextItem], budget: Budget, execution: ContextExecution) -> Steps[list[int]]:
    """Tokens of each item; without an estimator their sizes are known already."""
    if budget.tokens is None or execution.services.token_estimator is not None:
        return (yield from token_costs(tuple(items), budget, execution))
    execution.checkpoint()
    return [estimated_tokens(item.inline_bytes) for item in items]


def _note(
    execution: ContextExecution,
    items: Sequence[ContextItem],
    units: Sequence[Unit],
    plan: Plan,
    scores: Sequence[float],
    costs: Sequence[int] | None,
) -> None:
    """Tell the receipt, if there is to be one, why each unit stayed or went."""
    recorder = execution.recorder
    if recorder is None:
        return
    for index, unit in enumerate(units):
        kept = index in plan.kept
        reason = plan.kept[index] if kept else plan.dropped[index]
        for at in unit.positions:
            recorder.note(
                items[at],
                verdict="kept" if kept else "dropped",
                reason=reason,
                score=scores[at],
                tokens=costs[at] if costs else None,
                unit=index,
                turn=unit.turn,
            )


def _eligible(items: Sequence[ContextItem], execution: ContextExecution) -> list[ContextItem]:
    """Without what may not be remembered, and without the rest of its call group."""
    hidden = {at for unit in units_of(items) for at in unit.positions if not _all_eligible(unit, items)}
    if execution.recorder is not None:
        for at in hidden:
            execution.recorder.note(items[at], verdict="skipped", reason="not eligible for memory")
    return [item for at, item in enumerate(items) if at not in hidden]


def _all_eligible(unit: Unit, items: Sequence[ContextItem]) -> bool:
    return all(may_be_remembered(items[at]) for at in unit.positions)
