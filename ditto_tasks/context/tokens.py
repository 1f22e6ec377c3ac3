"""Token counts and budgets."""

from __future__ import annotations

from collections.abc import Sequence

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.checks import safe_integer
from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.steps import Steps, drive
from ditto_tasks.context.text import estimated_tokens
from ditto_tasks.errors import ContextError


def count_tokens(item: ContextItem, execution: ContextExecution) -> Steps[int]:
    """Tokens of the item's content, by the injected estimator or by its bytes."""
    execution.checkpoint()
    estimator = execution.services.token_estimator
    answer = None
    if estimator is not None:
        answer = yield lambda: estimator.estimate(item.content, execution)
    execution.checkpoint()
    if answer is None:
        return estimated_tokens(item.inline_bytes)
    tokens = safe_integer(answer)
    if tokens is None or tokens < 0:
        raise ContextError("INVALID_PROVIDER_OUTPUT", "a token estimate is not a whole number >= 0")
    if execution.recorder is not None:
        execution.recorder.estimated(item.content, tokens)
    return tokens


def total_tokens(items: Sequence[ContextItem], execution: ContextExecution) -> int:
    """Tokens of all items, for reports: a cancel is looked at beside an injected estimator only."""
    if execution.services.token_estimator is None:
        return sum(estimated_tokens(item.inline_bytes) for item in items)
    return sum(drive(count_tokens(item, execution)) for item in items)


def tightest(requested: int | None, ceiling: int | None) -> int | None:
    """The smaller of the two that exist: a request can only tighten the policy."""
    if requested is None or ceiling is None:
        return ceiling if requested is None else requested
    return min(requested, ceiling)
