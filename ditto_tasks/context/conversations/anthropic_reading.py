"""An Anthropic message list, with the system prompt that stands apart from it, as items."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ditto_tasks.context.checks import an_array, frozen, refuse
from ditto_tasks.context.conversations.calls import calls_of
from ditto_tasks.context.conversations.marks import ANTHROPIC, CONTINUED, INTERRUPTED, is_text
from ditto_tasks.context.conversations.reading import Reading, message_at, rest_of
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.json_values import FrozenDict, FrozenList, JsonObject, JsonValue, freeze


def read_anthropic(
    messages: object, *, system: object = None, after: Context | None = None
) -> tuple[ContextItem, ...]:
    """The messages as items for LOAD's sources or UPDATE's add; nothing of them is lost.

    `after` is the conversation that they continue: places go on from there, and results find its calls.
    """
    reading = Reading(ANTHROPIC, after)
    if system is not None:
        reading.add("system", _content(frozen(system, "/system"), "/system"))
        reading.done()
    for at, value in enumerate(an_array(messages, "/messages")):
        path = f"/messages/{at}"
        message = message_at(value, path)
        content = _content(message.get("content"), path + "/content")
        match message.get("role"):
            case "assistant":
                _read_assistant(reading, message, content)
            case "user":
                _read_user(reading, message, content)
            case _:
                raise refuse(path + "/role", "must be one of user, assistant")
        reading.done()
    return tuple(reading.items)


def _content(content: JsonValue, path: str) -> str | FrozenList:
    if isinstance(content, FrozenList) and all(isinstance(block, dict) for block in content):
        return content
    if isinstance(content, str):
        return content
    raise refuse(path, "must be a string or an array of blocks")


def _read_assistant(reading: Reading, message: FrozenDict, content: JsonValue) -> None:
    calls = bool(_tool_uses(content))
    item = reading.add("assistant", content, fields=rest_of(message, "role", "content"), calls=calls)
    if calls:
        reading.open.add(item.id, (call.id for call in calls_of(item)))


def _tool_uses(content: JsonValue) -> list[JsonValue]:
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]


def _read_user(reading: Reading, message: FrozenDict, content: str | FrozenList) -> None:
    """Results are items of their own, a group each; what else the message says is one more."""
    fields = rest_of(message, "role", "content")
    if isinstance(content, str) or not any(map(_is_result, content)):
        if not is_text(content, CONTINUED):
            reading.add("user", content, fields=fields)
        return
    for group, blocks, indexes in _answers(reading, [block for block in content if _is_result(block)]):
        # the result of an unknown call stays an item of its own, which an export refuses by its name
        marks: JsonObject = {"callId": group, "callIndexes": indexes} if group else {}
        reading.add("tool", freeze(blocks), fields=fields, **marks)
    others = [block for block in content if not _is_result(block)]
    if others:
        reading.add("user", freeze(others), fields=fields)


def _is_result(block: JsonValue) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _answers(
    reading: Reading, blocks: list[JsonValue]
) -> Iterator[tuple[str, list[JsonValue], list[JsonValue]]]:
    """The results, a group after the other, with the calls that they answer; stand-ins are left out."""
    found = [(block, _answered(reading, block)) for block in blocks if not _stands_in(block)]
    for group, members in groupby(found, key=lambda each: each[1][0]):
        listed = list(members)
        yield group, [block for block, _ in listed], [index for _, (_, index) in listed]


def _answered(reading: Reading, block: JsonValue) -> tuple[str, int]:
    call_id = block.get("tool_use_id") if isinstance(block, dict) else None
    return (reading.open.answer(call_id) if isinstance(call_id, str) else None) or ("", 0)


def _stands_in(block: JsonValue) -> bool:
    return isinstance(block, dict) and is_text(block.get("content"), INTERRUPTED)
