"""What LOAD, SELECT, UPDATE and COMPRESS ask of single items."""

from __future__ import annotations

from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject

_NO_METADATA: JsonObject = {}


def is_protected(item: ContextItem) -> bool:
    """Whether COMPRESS must keep the item: marked so, a safety rule, the goal, pending, or the system's."""
    metadata = item.metadata
    if not metadata:
        return False
    return (
        metadata.get("role") == "system"
        or metadata.get("protected") is True
        or metadata.get("safety") is True
        or metadata.get("currentGoal") is True
        or metadata.get("pending") is True
    )


def call_id(item: ContextItem) -> str | None:
    """The tool call whose group the item stays or goes with; only a nonempty string groups."""
    found = (item.metadata or _NO_METADATA).get("callId")
    return found if isinstance(found, str) and found else None


def is_referenced(item: ContextItem) -> bool:
    """Whether the content may be over the inline limit, because it points elsewhere."""
    if item.source is not None:
        return True
    content = item.content
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "reference" for part in content
    )


def check_inline(item: ContextItem, policy: ContextPolicy) -> None:
    if item.inline_bytes > policy.max_inline_bytes and not is_referenced(item):
        raise inline_limit_exceeded(policy)


def inline_limit_exceeded(policy: ContextPolicy) -> ContextError:
    limit = policy.max_inline_bytes
    return ContextError("INLINE_LIMIT_EXCEEDED", f"an item's content is over {limit} bytes")


def check_item_count(items: dict[str, ContextItem], policy: ContextPolicy) -> None:
    if len(items) > policy.max_items:
        raise ContextError("ITEM_LIMIT_EXCEEDED", f"more than {policy.max_items} items")


def put(items: dict[str, ContextItem], item: ContextItem, policy: ContextPolicy) -> None:
    """Add at the end; the policy says what becomes of an id that is there (it keeps its place)."""
    if item.id not in items or policy.duplicate == "replace":
        items[item.id] = item
    elif policy.duplicate == "reject":
        raise ContextError("DUPLICATE_ITEM", "an item with this id is there already")
