"""LOAD's references: the item that stands for one, and its content when it is resolved."""

from __future__ import annotations

from ditto_tasks.canonical import hash_id
from ditto_tasks.context.base import ContextExecution, ReferenceResolver
from ditto_tasks.context.checks import frozen
from ditto_tasks.context.items import inline_limit_exceeded
from ditto_tasks.context.models import ContextItem, ContextReference
from ditto_tasks.context.steps import Steps
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import InvalidJson, freeze


def reference_item(reference: ContextReference, path: str) -> ContextItem:
    """An item that only points; its id is a hash of the whole reference."""
    wire = reference.wire_form()
    content = frozen([{"type": "reference", "reference": wire}], path)
    metadata = freeze({"sourceType": "reference"})
    item_id = hash_id("reference", wire)
    return ContextItem.assemble(
        {"id": item_id, "content": content, "source": reference, "metadata": metadata}
    )


def resolved(
    item: ContextItem, reference: ContextReference, resolver: ReferenceResolver, execution: ContextExecution
) -> Steps[ContextItem]:
    """The same item with what the resolver fetched, which must fit inline."""
    answer = yield lambda: resolver.resolve(reference, execution)
    execution.checkpoint()
    try:
        content = freeze(answer)
    except InvalidJson:
        raise ContextError("INVALID_PROVIDER_OUTPUT", "the resolver's answer is not JSON") from None
    fetched = ContextItem.assemble(
        {"id": item.id, "content": content, "source": reference, "metadata": item.metadata}
    )
    if fetched.inline_bytes > execution.policy.max_inline_bytes:
        raise inline_limit_exceeded(execution.policy)
    return fetched
