"""What the items of a conversation carry in their metadata, and the texts that only an export has.

role         system, user, assistant or tool, whatever the provider calls it
format       the provider in whose form content and fields are
position     the message's place in its conversation; an export is ordered by it
callId       the group of a message with tool calls and of all their results; unique in the conversation
callIndexes  which calls of the group the item's results answer, in the order of its blocks
joined       the item was the second part of one message
fields       the message's other fields, such as name or tool_call_id
contentAbsent  the message had no content at all, which is not the same as null
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from ditto_tasks.context.models import ROLES, ContextItem
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject, JsonValue

Format: TypeAlias = Literal["openai", "anthropic"]

OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"
# Recognized when a list that was exported is read again, so that no stand-in becomes a message.
INTERRUPTED: Final = "[ditto: no result yet, the call was interrupted]"
CONTINUED: Final = "[ditto: the conversation goes on from earlier messages]"
EMPTY: Final = "[ditto: an empty message]"

_NOTHING: Final[JsonObject] = {}


def marks_of(item: ContextItem) -> JsonObject:
    return item.metadata or _NOTHING


def role_of(item: ContextItem) -> str | None:
    """The item's role in a conversation; None for what is no message."""
    role = marks_of(item).get("role")
    return role if isinstance(role, str) and role in ROLES else None


def is_format(item: ContextItem, form: str) -> bool:
    return marks_of(item).get("format") == form


def fields_of(item: ContextItem) -> JsonObject:
    """The message's fields beside role and content."""
    marks = marks_of(item)
    fields = marks.get("fields")
    if isinstance(fields, dict):
        return fields
    name = marks.get("name")  # where LOAD keeps it
    return {"name": name} if isinstance(name, str) else {}


def position_of(item: ContextItem) -> int | None:
    found = marks_of(item).get("position")
    return found if type(found) is int else None  # a bool is no place


def blocks_of(content: JsonValue) -> list[JsonObject]:
    """The object parts of an array content; nothing of any other."""
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def is_text(content: JsonValue, text: str) -> bool:
    """Whether a content is `text`, as a string or as the only text block."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        content = content[0].get("text")
    return content == text


def unwritable(item: ContextItem, reason: str) -> ContextError:
    """The refusal of an export; it names the item and holds no content."""
    return ContextError("CONVERSATION_INVALID", f"item {item.id}: {reason}", {"item_id": item.id})
