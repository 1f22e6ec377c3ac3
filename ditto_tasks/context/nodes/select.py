"""CONTEXT.SELECT: a strategy ranks, and a walk down its candidates keeps what fits."""

from __future__ import annotations

from collections.abc import Sequence

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.compression import Budget
from ditto_tasks.context.inputs import SelectInput
from ditto_tasks.context.items import check_inline
from ditto_tasks.context.models import Context, ContextItem, ContextSelection
from ditto_tasks.context.named import the_selector
from ditto_tasks.context.selection import default_select, ranking
from ditto_tasks.context.steps import SteppedSelector, Steps
from ditto_tasks.context.tokens import count_tokens
from ditto_tasks.errors import ContextError


def select_steps(request: SelectInput, execution: ContextExecution) -> Steps[ContextSelection]:
    if execution.recorder is not None:
        execution.recorder.begin(request, execution)
    candidates = yield from _candidates(request, execution)
    if not isinstance(candidates, (list, tuple)):
        raise ContextError("INVALID_PROVIDER_OUTPUT", "the strategy's answer is not a list")
    chosen = yield from _walk(candidates, request, execution)
    return ContextSelection.assemble(
        {
            "purpose": request.purpose,
            "context": Context.assemble({"items": chosen}),
            "selected_item_ids": tuple(item.id for item in chosen),
        }
    )


def _candidates(request: SelectInput, execution: ContextExecution) -> Steps[object]:
    kind = request.strategy.kind if request.strategy else "default"
    if kind == "default":
        return _by_default(request, execution)
    services = execution.services
    strategy = services.rag_strategy if kind == "rag" else the_selector(services, request.strategy)
    if strategy is None:
        raise ContextError("STRATEGY_UNAVAILABLE", f"no service for the strategy kind {kind} is configured")
    if isinstance(strategy, SteppedSelector):
        return (yield from strategy.steps(request, execution))
    return (yield lambda: strategy.select(request, execution))


def _by_default(request: SelectInput, execution: ContextExecution) -> tuple[ContextItem, ...]:
    if execution.recorder is None:
        return default_select(request)
    ranked = ranking(request)
    for each in ranked:
        execution.recorder.note(each.item, score=each.score)
    return tuple(each.item for each in ranked)


def _walk(
    candidates: Sequence[object], request: SelectInput, execution: ContextExecution
) -> Steps[tuple[ContextItem, ...]]:
    """First fit in candidate order; an id that was skipped for the budget is not tried again."""
    budget = Budget.of(request, execution)
    chosen: list[ContextItem] = []
    seen: set[str] = set()
    used = 0
    for candidate in candidates:
        item = _checked(candidate)
        if item.id in seen:
            continue
        if len(chosen) == budget.items:
            break
        seen.add(item.id)
        check_inline(item, execution.policy)
        fits, tokens = True, None
        if budget.tokens is not None:
            tokens = yield from count_tokens(item, execution)
            fits = used + tokens <= budget.tokens
            used += tokens if fits else 0
        if execution.recorder is not None:
            verdict = "kept" if fits else "dropped"
            execution.recorder.note(item, verdict=verdict, tokens=tokens, used=used, place=len(seen))
        if fits:
            chosen.append(item)
    return tuple(chosen)


def _checked(candidate: object) -> ContextItem:
    try:
        return ContextItem.parse(candidate)
    except ContextError as problem:
        raise ContextError("INVALID_PROVIDER_OUTPUT", f"a candidate is no item: {problem.message}") from None
