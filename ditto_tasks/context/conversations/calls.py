"""Tool calls and their results, whichever provider's form an item has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ditto_tasks.context.conversations.marks import blocks_of, marks_of, role_of
from ditto_tasks.context.items import call_id
from ditto_tasks.context.models import ContextItem
from ditto_tasks.json_values import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an assistant's message; `arguments` are JSON text from OpenAI, an object from Anthropic."""

    id: str
    name: str
    arguments: JsonValue
    native: JsonObject


def calls_of(item: ContextItem) -> tuple[Call, ...]:
    """The calls that an item makes, in order."""
    content = item.content
    if isinstance(content, dict):
        return tuple(_openai_call(each) for each in blocks_of(content.get("tool_calls")))
    if not isinstance(content, list) or role_of(item) != "assistant":
        return ()
    return tuple(_anthropic_call(each) for each in blocks_of(content) if each.get("type") == "tool_use")


def count_calls(item: ContextItem) -> int:
    """How many calls an item makes, without taking them apart."""
    content = item.content
    if isinstance(content, dict):
        calls = content.get("tool_calls")
        return len(calls) if isinstance(calls, list) else 0
    return 0 if isinstance(content, str) else len(calls_of(item))


def _openai_call(call: JsonObject) -> Call:
    kind = "custom" if call.get("type") == "custom" else "function"
    asked = call.get(kind)
    body = asked if isinstance(asked, dict) else {}
    arguments = {"input": body.get("input")} if kind == "custom" else body.get("arguments")
    return Call(_text(call.get("id")), _text(body.get("name")), arguments, call)


def _anthropic_call(block: JsonObject) -> Call:
    return Call(_text(block.get("id")), _text(block.get("name")), block.get("input"), block)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def answered_by(item: ContextItem) -> list[int]:
    """Which calls of its group a result item answers; one without the mark answers the first."""
    indexes = marks_of(item).get("callIndexes")
    return [each for each in indexes if isinstance(each, int)] if isinstance(indexes, list) else [0]


class OpenCalls:
    """The calls that have no result yet, oldest first."""

    def __init__(self, items: Iterable[ContextItem] = ()) -> None:
        self._open: dict[tuple[str, int], str] = {}
        late: list[ContextItem] = []
        for item in items:
            group = call_id(item)
            if group is None:
                continue
            if role_of(item) == "tool":
                late.append(item)
            else:
                self.add(group, (call.id for call in calls_of(item)))
        for result in late:
            for index in answered_by(result):
                self._open.pop((call_id(result) or "", index), None)

    def add(self, group: str, ids: Iterable[str]) -> None:
        self._open.update({(group, index): each for index, each in enumerate(ids)})

    def answer(self, call_id: str) -> tuple[str, int] | None:
        """Take the call that a result with this id answers: of the newest group that waits for it, the first.

        Ids repeat in real sessions, within one message too.
        """
        group = next((group for (group, _), each in reversed(self._open.items()) if each == call_id), None)
        for key, each in self._open.items():
            if key[0] == group and each == call_id:
                del self._open[key]
                return key
        return None

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._open)
