"""CONTEXT.LOAD: sources become a context."""

from __future__ import annotations

from ditto_tasks.canonical import hash_id
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import LoadInput
from ditto_tasks.context.items import check_inline, check_item_count, put
from ditto_tasks.context.models import Context, ContextItem, ContextMessage, ContextReference, Source
from ditto_tasks.context.references import reference_item, resolved
from ditto_tasks.context.steps import Steps
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject, freeze


def load_steps(request: LoadInput, execution: ContextExecution) -> Steps[Context]:
    policy = execution.policy
    resolver = execution.services.reference_resolver
    if request.resolve_references and resolver is None:
        raise ContextError("RESOLVER_UNAVAILABLE", "no reference resolver is configured")
    items: dict[str, ContextItem] = {}
    for index, source in enumerate(request.sources or ()):
        execution.checkpoint()
        item = _item_of(source, f"/sources/{index}")
        if isinstance(source, ContextReference):
            if request.resolve_references and resolver is not None:
                item = yield from resolved(item, source, resolver, execution)
        else:
            check_inline(item, policy)
        put(items, item, policy)
    check_item_count(items, policy)
    return Context.assemble({"items": tuple(items.values())})


def _item_of(source: Source, path: str) -> ContextItem:
    if isinstance(source, ContextItem):
        return source
    if isinstance(source, ContextReference):
        return reference_item(source, path)
    return _message_item(source)


def _message_item(message: ContextMessage) -> ContextItem:
    """The message's content; its id is a hash of the whole message, so equal messages are one item."""
    metadata: JsonObject = {"sourceType": "message", "role": message.role}
    if message.name is not None:
        metadata["name"] = message.name
    item_id = hash_id("message", message.wire_form())
    return ContextItem.assemble({"id": item_id, "content": message.content, "metadata": freeze(metadata)})
