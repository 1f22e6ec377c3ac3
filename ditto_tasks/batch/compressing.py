"""One context against a run's budget: is it over, and what remains of it within? Does no I/O."""

from __future__ import annotations

from ditto_tasks.batch.models import Budget, Row, Sizes
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.compression import Budget as ContextBudget
from ditto_tasks.context.inputs import CompressInput
from ditto_tasks.context.models import Context
from ditto_tasks.context.nodes.scoped import apply_mutation
from ditto_tasks.context.tokens import total_tokens
from ditto_tasks.json_values import JsonObject


def sizes_of(context: Context, execution: ContextExecution) -> Sizes:
    """Items and tokens of a context."""
    return Sizes(items=len(context.items), tokens=total_tokens(context.items, execution))


def is_within(sizes: Sizes, budget: Budget, execution: ContextExecution) -> bool:
    """Whether a context of these sizes needs no compressing."""
    ceilings = {"max_items": budget.max_items, "max_tokens": budget.max_tokens}
    request = CompressInput.assemble({name: value for name, value in ceilings.items() if value is not None})
    return ContextBudget.of(request, execution).holds(sizes.items, sizes.tokens or 0)


def would_compress(
    name: str, context: Context, before: Sizes, budget: Budget, execution: ContextExecution
) -> tuple[Row, Context]:
    """A row that says what CONTEXT.COMPRESS makes of a context, and what it made; raises what it raises."""
    ceilings: JsonObject = {"maxItems": budget.max_items, "maxTokens": budget.max_tokens}
    wire = {key: value for key, value in ceilings.items() if value is not None}
    after = apply_mutation("CONTEXT.COMPRESS", wire, context, execution)
    kept = {item.id for item in after.items}
    row = Row(
        scope=name,
        status="would-compress",
        before=before,
        after=sizes_of(after, execution),
        removed_ids=tuple(item.id for item in context.items if item.id not in kept),
    )
    return row, after
