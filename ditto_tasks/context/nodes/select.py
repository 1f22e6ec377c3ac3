"""CONTEXT.SELECT: a strategy ranks, and a walk down its candidates keeps what fits."""

from __future__ import annotations

from collections.abc import Sequence

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import SelectInput
from ditto_tasks.context.items import check_inline
from ditto_tasks.context.models import Context, ContextItem, ContextSelection
from ditto_tasks.context.rag import StagedRag
from ditto_tasks.context.selection import default_select
from ditto_tasks.context.steps import Steps
from ditto_tasks.context.tokens import count_tokens, tightest
from ditto_tasks.errors import ContextError


def select_steps(request: SelectInput, execution: ContextExecution) -> Steps[ContextSelection]:
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
        return default_select(request)
    services = execution.services
    strategy = services.rag_strategy if kind == "rag" else services.selector
    if strategy is None:
        raise ContextError("STRATEGY_UNAVAILABLE", f"no service for the strategy kind {kind} is configured")
    if isinstance(strategy, StagedRag):
        return (yield from strategy.steps(request, execution))
    return (yield lambda: strategy.select(request, execution))


def _walk(
    candidates: Sequence[object], request: SelectInput, execution: ContextExecution
) -> Steps[tuple[ContextItem, ...]]:
    """First fit in candidate order; an id that was skipped for the budget is not tried again."""
    policy = execution.policy
    limit = tightest(request.limit, policy.max_items)
    budget = tightest(request.max_tokens, policy.max_tokens)
    chosen: list[ContextItem] = []
    seen: set[str] = set()
    used = 0
    for candidate in candidates:
        item = _checked(candidate)
        if item.id in seen:
            continue
        if len(chosen) == limit:
            break
        seen.add(item.id)
        check_inline(item, policy)
        if budget is not None:
            tokens = yield from count_tokens(item, execution)
            if used + tokens > budget:
                continue
            used += tokens
        chosen.append(item)
    return tuple(chosen)


def _checked(candidate: object) -> ContextItem:
    try:
        return ContextItem.parse(candidate)
    except ContextError as problem:
        raise ContextError("INVALID_PROVIDER_OUTPUT", f"a candidate is no item: {problem.message}") from None
