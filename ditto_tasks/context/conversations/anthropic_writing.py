"""A context as an Anthropic message list and the system prompt apart from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ditto_tasks.context.conversations.blocks import as_input, to_anthropic
from ditto_tasks.context.conversations.exchanges import Exchange, Notes, Orphans, Result, arrange
from ditto_tasks.context.conversations.export import (
    Interrupted,
    ProviderMessages,
    all_ids,
    interrupted,
    need_messages,
)
from ditto_tasks.context.conversations.marks import (
    ANTHROPIC,
    CONTINUED,
    EMPTY,
    INTERRUPTED,
    blocks_of,
    fields_of,
    is_format,
    marks_of,
)
from ditto_tasks.context.conversations.renames import CallIds, NameRule, renamed
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.json_values import JsonObject, JsonValue

_ID: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]+"), 256, "call")
_TOOL: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]+"), 64, "tool")


def write_anthropic(
    context: Context, *, orphans: Orphans = "refuse", notes: Notes = "refuse"
) -> ProviderMessages:
    """The context's messages as the API takes them, or CONVERSATION_INVALID naming the item.

    Every call is answered in the next message; one without a result gets a marked stand-in. Ids are
    unique in the whole list, the first message is the user's, and the system's stand apart.
    `orphans` are results without a call, `notes` are items that are no messages.
    """
    exchanges = arrange(context.items, orphans=orphans, notes=notes)
    need_messages(exchanges)
    writer = _Writer(CallIds(_ID, [], all_ids(exchanges), everywhere=True))
    for exchange in exchanges:
        writer.write(exchange)
    system = _system([exchange.item for exchange in exchanges if exchange.role == "system"])
    return ProviderMessages(writer.finished(), system, tuple(writer.ids.renames), tuple(writer.interrupted))


class _Writer:
    def __init__(self, ids: CallIds) -> None:
        self.ids = ids
        self.interrupted: list[Interrupted] = []
        self._messages: list[JsonObject] = []

    def write(self, exchange: Exchange) -> None:
        item = exchange.item
        if exchange.calls:
            self._write_calls(exchange)
        elif exchange.role == "user":
            content = _shown(item, item.content) or [{"type": "text", "text": EMPTY}]
            self._append("user", content, item)
        elif exchange.role == "assistant" and (content := _shown(item, item.content)):
            self._append("assistant", content, item)

    def _write_calls(self, exchange: Exchange) -> None:
        ids = self.ids.assign(exchange.item, [call.id for call in exchange.calls])
        self._append("assistant", self._call_blocks(exchange, ids), exchange.item)
        for index, result in exchange.results.items():
            block = _result_block(result, ids[index])
            self._append("user", [block], result.item, joined=index != next(iter(exchange.results)))
        for missing in interrupted(exchange, ids):
            stand_in: JsonObject = {"type": "tool_result", "tool_use_id": missing.call_id}
            stand_in |= {"content": INTERRUPTED, "is_error": True}
            self._append("user", [stand_in], exchange.item, joined=True)
            self.interrupted.append(missing)

    def _call_blocks(self, exchange: Exchange, ids: list[str]) -> list[JsonObject]:
        item = exchange.item
        uses = [self._tool_use(exchange, index, call_id) for index, call_id in enumerate(ids)]
        if isinstance(item.content, dict):
            return [*to_anthropic(item, item.content.get("content")), *uses]
        in_order = iter(uses)
        blocks = to_anthropic(item, item.content)
        return [next(in_order) if block.get("type") == "tool_use" else block for block in blocks]

    def _tool_use(self, exchange: Exchange, index: int, call_id: str) -> JsonObject:
        call = exchange.calls[index]
        name = renamed(_TOOL, "tool", exchange.item, index, call.name, self.ids.renames)
        if not isinstance(exchange.item.content, dict):
            changed: JsonObject = {"id": call_id, "name": name, "input": as_input(call.arguments)}
            return {**call.native, **changed}
        return {"type": "tool_use", "id": call_id, "name": name, "input": as_input(call.arguments)}

    def _append(
        self, role: str, content: str | list[JsonObject], item: ContextItem, *, joined: bool = False
    ) -> None:
        """A message, or more of the one before: only this provider's own lists keep two of one role apart."""
        joined = joined or not is_format(item, ANTHROPIC) or marks_of(item).get("joined") is True
        last = self._messages[-1] if self._messages else {}
        if joined and last.get("role") == role:
            last["content"] = [*_as_blocks(last["content"]), *_as_blocks(content)]
            return
        fields = fields_of(item) if is_format(item, ANTHROPIC) else {}
        self._messages.append({"role": role, "content": _as_json(content), **fields})

    def finished(self) -> list[JsonObject]:
        """The messages, the user's first; text at the very end must not end in space if an assistant's."""
        messages = self._messages
        if not messages or messages[0]["role"] != "user":
            messages = [{"role": "user", "content": CONTINUED}, *messages]
        if messages[-1]["role"] == "assistant":
            messages[-1] = {**messages[-1], "content": _trimmed(messages[-1]["content"])}
        return messages


def _shown(item: ContextItem, content: JsonValue) -> str | list[JsonObject]:
    """A string stays one; blank texts give nothing."""
    if isinstance(content, str) and "refusal" not in fields_of(item):
        return content if content.strip() else []
    return to_anthropic(item, content)


def _result_block(result: Result, call_id: str) -> JsonObject:
    item = result.item
    if is_format(item, ANTHROPIC):
        block = blocks_of(item.content)[result.block]
        content = block.get("content")
        if isinstance(content, list):
            block = {**block, "content": _as_json(to_anthropic(item, content))}
        return {**block, "tool_use_id": call_id}
    shown = _shown(item, item.content)
    answer: JsonObject = {"type": "tool_result", "tool_use_id": call_id}
    return {**answer, "content": _as_json(shown)} if shown else answer


def _as_blocks(content: JsonValue | list[JsonObject]) -> Iterable[JsonValue]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else _listed(content)


def _listed(content: JsonValue | list[JsonObject]) -> list[JsonValue]:
    return list(content) if isinstance(content, list) else []


def _as_json(content: str | list[JsonObject]) -> JsonValue:
    return content if isinstance(content, str) else list(content)


def _trimmed(content: JsonValue) -> JsonValue:
    if isinstance(content, str):
        return content.rstrip()
    blocks = _listed(content)
    last = blocks[-1] if blocks else None
    if isinstance(last, dict) and isinstance(text := last.get("text"), str):
        return [*blocks[:-1], {**last, "text": text.rstrip()}]
    return content


def _system(items: list[ContextItem]) -> JsonValue:
    """One prompt as it is; several as the blocks of one."""
    shown = [content for item in items if (content := _shown(item, item.content))]
    if len(shown) == 1:
        return _as_json(shown[0])
    return [block for content in shown for block in _as_blocks(content)] or None
