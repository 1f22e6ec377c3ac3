"""CONTEXT.UPDATE: removals, additions and what other nodes hand in, in that order."""

from __future__ import annotations

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import UpdateInput
from ditto_tasks.context.items import check_inline, check_item_count, put
from ditto_tasks.context.models import Context, ContextItem, IngressEntry
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.context.steps import Steps
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import freeze


def update_steps(request: UpdateInput, execution: ContextExecution) -> Steps[Context]:
    yield from ()  # calls no service
    return updated(request, execution.policy)


def updated(request: UpdateInput, policy: ContextPolicy) -> Context:
    existing = request.context.items if request.context else ()
    for item in existing:
        check_inline(item, policy)
    items = {item.id: item for item in existing}
    for item_id in request.remove_ids or ():
        if items.pop(item_id, None) is None and policy.missing_removal == "reject":
            raise ContextError("MISSING_ITEM", "an id to be removed is not there")
    for item in (*(request.add or ()), *map(_ingress_item, request.ingress or ())):
        check_inline(item, policy)
        put(items, item, policy)
    check_item_count(items, policy)
    return Context.assemble({"items": tuple(items.values())})


def _ingress_item(entry: IngressEntry) -> ContextItem:
    metadata = freeze({**(entry.metadata or {}), "sourceNode": entry.source_node})
    values: dict[str, object] = {"id": entry.id, "content": entry.content, "metadata": metadata}
    if entry.reference is not None:
        values["source"] = entry.reference
    return ContextItem.assemble(values)
