"""COMPRESS's default strategy, and the check that every strategy's result must pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import attrgetter

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.items import call_id, is_protected
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.context.selection import number
from ditto_tasks.context.steps import Steps, drive
from ditto_tasks.context.tokens import count_tokens, tightest
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject

_NO_METADATA: JsonObject = {}


@dataclass(frozen=True, slots=True)
class Budget:
    """What a result may hold; `tokens` None is no limit, and then nothing is estimated."""

    items: int
    tokens: int | None

    @classmethod
    def of(cls, request: CompressInput | SelectInput, execution: ContextExecution) -> Budget:
        """The request's limits within the policy's ceilings."""
        policy = execution.policy
        asked = request.limit if isinstance(request, SelectInput) else request.max_items
        items = policy.max_items if asked is None else min(asked, policy.max_items)
        return cls(items, tightest(request.max_tokens, policy.max_tokens))

    def holds(self, items: int, tokens: int) -> bool:
        return items <= self.items and (self.tokens is None or tokens <= self.tokens)


@dataclass(frozen=True, slots=True)
class _Group:
    """Items that stay or go together, and where they stand in the context."""

    positions: list[int]
    keep: float
    protected: bool


def deterministic_compress(request: CompressInput | JsonObject, execution: ContextExecution) -> Context:
    """Whole groups go, the least worth keeping first, until both budgets hold; the order stays."""
    return drive(compress_steps(CompressInput.parse(request), execution))


def compress_steps(request: CompressInput, execution: ContextExecution) -> Steps[Context]:
    items = request.context.items if request.context else ()
    budget = Budget.of(request, execution)
    costs = yield from token_costs(items, budget, execution)
    groups = _groups(items)
    protected = [group for group in groups if group.protected]
    if not budget.holds(*_size(protected, costs)):
        raise ContextError("BUDGET_UNSATISFIABLE", "the protected items alone are over the budget")
    dropped = _dropped(groups, costs, budget)
    _note(execution, items, groups, None if budget.tokens is None else costs, dropped)
    return Context.assemble({"items": tuple(item for at, item in enumerate(items) if at not in dropped)})


def token_costs(
    items: tuple[ContextItem, ...], budget: Budget, execution: ContextExecution
) -> Steps[list[int]]:
    """Tokens of each item; all 0 without a token budget, where nothing is to be estimated."""
    if budget.tokens is None:
        return [0] * len(items)
    costs = []
    for item in items:
        cost = yield from count_tokens(item, execution)
        costs.append(cost)
    return costs


def _dropped(groups: list[_Group], costs: list[int], budget: Budget) -> set[int]:
    items, tokens = _size(groups, costs)
    dropped: set[int] = set()
    # stable: where this is equal, or NaN, the order of index stays
    for group in sorted((each for each in groups if not each.protected), key=attrgetter("keep")):
        if budget.holds(items, tokens):
            break
        dropped.update(group.positions)
        items -= len(group.positions)
        tokens -= sum(costs[at] for at in group.positions)
    return dropped


def _note(
    execution: ContextExecution,
    items: tuple[ContextItem, ...],
    groups: list[_Group],
    costs: list[int] | None,
    dropped: set[int],
) -> None:
    """Tell the receipt, if there is to be one, why each group stayed or went."""
    recorder = execution.recorder
    if recorder is None:
        return
    for index, group in enumerate(groups):
        for at in group.positions:
            gone = at in dropped
            reason = "protected" if group.protected else "among the least worth keeping" if gone else "fits"
            verdict = "dropped" if gone else "kept"
            tokens = costs[at] if costs else None
            recorder.note(
                items[at], verdict=verdict, reason=reason, score=group.keep, tokens=tokens, unit=index
            )


def _size(groups: list[_Group], costs: list[int]) -> tuple[int, int]:
    positions = [at for group in groups for at in group.positions]
    return len(positions), sum(costs[at] for at in positions)


def _groups(items: tuple[ContextItem, ...]) -> list[_Group]:
    members: dict[str | int, list[int]] = {}
    for at, item in enumerate(items):
        members.setdefault(call_id(item) or at, []).append(at)
    return [_group(positions, items) for positions in members.values()]


def _group(positions: list[int], items: tuple[ContextItem, ...]) -> _Group:
    members = [items[at] for at in positions]
    scores = [_keep(item, positions[0] + j, len(items)) for j, item in enumerate(members)]
    keep = math.nan if any(map(math.isnan, scores)) else max(scores)
    return _Group(positions, keep, any(map(is_protected, members)))


def _keep(item: ContextItem, rank: int, total: int) -> float:
    metadata = item.metadata or _NO_METADATA
    score = number(metadata, "priority") * 100
    score += number(metadata, "relevance") * 10
    score += -10 if metadata.get("retrievable") is True else 0
    return score + rank / total


def check_compressed(result: Context, request: CompressInput, execution: ContextExecution) -> Steps[None]:
    """INVALID_PROVIDER_OUTPUT unless `result` is a compression of the request's context."""
    before = request.context.items if request.context else ()
    ids = {item.id for item in result.items}
    if not ids <= {item.id for item in before}:
        raise _bad_output("has an id that was not there")
    if any(item.id not in ids for item in before if is_protected(item)):
        raise _bad_output("lacks a protected item")
    kept = {call_id(item) for item in before if item.id in ids} - {None}
    if any(call_id(item) in kept for item in before if item.id not in ids):
        raise _bad_output("splits a callId group")
    budget = Budget.of(request, execution)
    if len(ids) > budget.items:
        raise _bad_output("has too many items")
    costs = yield from token_costs(result.items, budget, execution)
    if budget.tokens is not None and sum(costs) > budget.tokens:
        raise _bad_output("has too many tokens")


def _bad_output(reason: str) -> ContextError:
    return ContextError("INVALID_PROVIDER_OUTPUT", f"the compressed context {reason}")
