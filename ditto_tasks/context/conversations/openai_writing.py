"""A context as an OpenAI chat list."""

from __future__ import annotations

import re
from typing import Final

from ditto_tasks.context.conversations.blocks import as_arguments, to_openai
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
    INTERRUPTED,
    blocks_of,
    fields_of,
    is_format,
    marks_of,
)
from ditto_tasks.context.conversations.renames import CallIds, NameRule, renamed
from ditto_tasks.context.models import Context, ContextItem
from ditto_tasks.json_values import JsonObject, JsonValue

# what the API answers 400 to otherwise
_ID: Final = NameRule(re.compile(r"(?s:.)+"), 40, "call")
_TOOL: Final = NameRule(re.compile(r"[a-zA-Z0-9_-]+"), 64, "tool")
_AUTHOR: Final = NameRule(re.compile(r"[^\s<|\\/>]+"), 64, "name")
_MAY_BE_SILENT: Final = frozenset({"refusal", "audio", "function_call"})  # with these, content may be null


def write_openai(
    context: Context, *, orphans: Orphans = "refuse", notes: Notes = "refuse"
) -> ProviderMessages:
    """The context's messages as the API takes them, or CONVERSATION_INVALID naming the item.

    Every call is answered right behind its message; one without a result gets a marked stand-in.
    `orphans` are results without a call, `notes` are items that are no messages.
    """
    exchanges = arrange(context.items, orphans=orphans, notes=notes)
    need_messages(exchanges)
    writer = _Writer(CallIds(_ID, [], all_ids(exchanges), everywhere=False))
    for exchange in exchanges:
        writer.write(exchange)
    return ProviderMessages(writer.messages, None, tuple(writer.ids.renames), tuple(writer.interrupted))


class _Writer:
    def __init__(self, ids: CallIds) -> None:
        self.ids = ids
        self.messages: list[JsonObject] = []
        self.interrupted: list[Interrupted] = []

    def write(self, exchange: Exchange) -> None:
        if not exchange.calls:
            self._write_plain(exchange)
            return
        ids = self.ids.assign(exchange.item, [call.id for call in exchange.calls])
        self._write_calls(exchange, ids)
        for index, result in exchange.results.items():
            self.messages.append(self._result(result, ids[index]))
        for missing in interrupted(exchange, ids):
            stand_in: JsonObject = {"role": "tool", "tool_call_id": missing.call_id, "content": INTERRUPTED}
            self.messages.append(stand_in)
            self.interrupted.append(missing)

    def _write_plain(self, exchange: Exchange) -> None:
        item = exchange.item
        role = marks_of(item).get("providerRole") or exchange.role
        content = to_openai(item, item.content, own=_is_own(item))
        fields = self._fields(item)
        if content is None and not (exchange.role == "assistant" and fields.keys() & _MAY_BE_SILENT):
            content = ""
        if content == "" and not _is_own(item) and exchange.role == "assistant":
            return  # it was nothing but thinking
        message: JsonObject = {"role": role, "content": content, **fields}
        if content is None and marks_of(item).get("contentAbsent"):
            del message["content"]
        self.messages.append(message)

    def _write_calls(self, exchange: Exchange, ids: list[str]) -> None:
        item = exchange.item
        tool_calls: list[JsonValue] = [
            self._call(exchange, index, call_id) for index, call_id in enumerate(ids)
        ]
        message: JsonObject = {"role": "assistant"}
        if not isinstance(item.content, dict):
            message["content"] = to_openai(item, item.content, own=False) or None
        elif "content" in item.content:
            message["content"] = to_openai(item, item.content["content"], own=True)
        self.messages.append({**message, "tool_calls": tool_calls, **self._fields(item)})

    def _call(self, exchange: Exchange, index: int, call_id: str) -> JsonObject:
        call = exchange.calls[index]
        name = renamed(_TOOL, "tool", exchange.item, index, call.name, self.ids.renames)
        if isinstance(exchange.item.content, dict):
            if call_id == call.id and name == call.name:
                return call.native
            kind = "custom" if call.native.get("type") == "custom" else "function"
            asked = call.native.get(kind)
            body: JsonObject = {**(asked if isinstance(asked, dict) else {}), "name": name}
            return {**call.native, "id": call_id, kind: body}
        asked = {"name": name, "arguments": as_arguments(call.arguments)}
        return {"id": call_id, "type": "function", "function": asked}

    def _result(self, result: Result, call_id: str) -> JsonObject:
        item = result.item
        fields = self._fields(item)
        content = item.content
        if is_format(item, ANTHROPIC):
            block = blocks_of(content)[result.block]
            content = to_openai(item, block.get("content"), own=False)
        else:
            content = to_openai(item, content, own=True)
        return {
            "role": "tool",
            "content": "" if content is None else content,
            **fields,
            "tool_call_id": call_id,
        }

    def _fields(self, item: ContextItem) -> JsonObject:
        """The other fields; those of another provider's message mean nothing here."""
        fields = fields_of(item) if _is_own(item) else {}
        name = fields.get("name")
        if not isinstance(name, str):
            return fields
        return {**fields, "name": renamed(_AUTHOR, "name", item, 0, name, self.ids.renames)}


def _is_own(item: ContextItem) -> bool:
    return not is_format(item, ANTHROPIC)
