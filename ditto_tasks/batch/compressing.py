"""One context against a run's budget: is it over, and what remains of it within? Does no I/O."""

from __future__ import annotations

from ditto_tasks.batch.models import Budget, Sizes
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.compression import Budget as ContextBudget
from ditto_tasks.context.inputs import CompressInput
from ditto_tasks.context.models import Context
from ditto_tasks.context.nodes.scoped import apply_mutation
from ditto_tasks.context.steps import drive
from ditto_tasks.context.tokens import count_tokens
from ditto_tasks.json_values import JsonObject


def sizes_of(context: Context, execution: ContextExecution) -> Sizes:
    """Items and tokens of a context."""
    return Sizes(
        items=len(context.items),
        tokens=sum(drive(count_tokens(item, execution)) for item in context.items),
    )


def is_within(sizes: Sizes, budget: Budget, execution: ContextExecution) -> bool:
    """Whether a context of these sizes needs no compressing."""
    ceilings = {"max_items": budget.max_items, "max_tokens": budget.max_tokens}
    request = CompressInput.assemble({name: value for name, value in ceilings.items() if value is not None})
    return ContextBudget.of(request, execution).holds(sizes.items, sizes.tokens or 0)


def compressed(context: Context, budget: Budget, execution: ContextExecution) -> Context:
    """What CONTEXT.COMPRESS makes of it; raises what that raises."""
    ceilings: JsonObject = {"maxItems": budget.max_items, "maxTokens": budget.max_tokens}
    wire = {name: value for name, value in ceilings.items() if value is not None}
    return apply_mutation("CONTEXT.COMPRESS", wire, context, execution)


def removed_ids(before: Context, after: Context) -> tuple[str, ...]:
    """The ids that are gone, in the order in which they stood."""
    kept = {item.id for item in after.items}
    return tuple(item.id for item in before.items if item.id not in kept)
