"""An OpenAI chat list as items."""

from __future__ import annotations

from ditto_tasks.context.checks import an_array, refuse
from ditto_tasks.context.conversations.calls import calls_of
from ditto_tasks.context.conversations.marks import INTERRUPTED, OPENAI, is_text
from ditto_tasks.context.conversations.reading import Reading, message_at, rest_of
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.json_values import FrozenDict, JsonObject, freeze

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def read_openai(messages: object, *, after: Context | None = None) -> tuple[ContextItem, ...]:
    """The messages as items for LOAD's sources or UPDATE's add; nothing of them is lost.

    `after` is the conversation that they continue: places go on from there, and results find its calls.
    """
    reading = Reading(OPENAI, after)
    for at, value in enumerate(an_array(messages, "/messages")):
        path = f"/messages/{at}"
        message = message_at(value, path)
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise refuse(path + "/role", f"must be one of {', '.join(_ROLES)}")
        if role == "tool":
            _read_result(reading, message, path)
        else:
            _read_message(reading, message, role)
        reading.done()
    return tuple(reading.items)


def _read_message(reading: Reading, message: FrozenDict, role: str) -> None:
    other = {} if role == _ROLES[role] else {"providerRole": role}
    if role == "assistant" and message.get("tool_calls"):
        # calls and their arguments are content: they cost tokens and can be searched
        content = freeze({key: message[key] for key in ("content", "tool_calls") if key in message})
        fields = rest_of(message, "role", "content", "tool_calls")
        item = reading.add(role, content, fields=fields, calls=True)
        reading.open.add(item.id, (call.id for call in calls_of(item)))
        return
    fields = rest_of(message, "role", "content")
    absent = "content" not in message
    reading.add(_ROLES[role], message.get("content"), fields=fields, contentAbsent=absent, **other)


def _read_result(reading: Reading, message: FrozenDict, path: str) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        raise refuse(path + "/tool_call_id", "must be a string")
    if is_text(message.get("content"), INTERRUPTED):
        return
    answered = reading.open.answer(call_id)
    marks: JsonObject = {"fields": rest_of(message, "role", "content")}
    if answered is not None:
        marks |= {"callId": answered[0], "callIndexes": [answered[1]]}
    reading.add("tool", message.get("content"), **marks)
