"""Tokens of contents, tool calls and tools' schemas, by their structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ditto_tasks.context.tokenizers.media import media_tokens
from ditto_tasks.context.tokenizers.models import ModelRules
from ditto_tasks.json_values import JsonObject, JsonValue, encode

TextCount = Callable[[str], int]

# OpenAI's cookbook: tokens that a schema's structure takes beside its texts
_PROPERTIES: Final = 3
_PROPERTY: Final = 3
_ENUM: Final = -3
_ENUM_VALUE: Final = 3


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts with a model's overheads; how many tokens a text has is told by `text`."""

    text: TextCount
    rules: ModelRules

    def message(self, content: JsonValue) -> int:
        """A message by its content; an item of a conversation with tool calls has them in it."""
        return self.rules.message + self.content(content)

    def content(self, content: JsonValue) -> int:
        match content:
            case None:
                return 0
            case str():
                return self.text(content)
            case list():
                return sum(map(self._part, content))
            case dict() if isinstance(calls := content.get("tool_calls"), list):
                return self.content(content.get("content")) + sum(map(self._openai_call, calls))
        return self._json(content)

    def request(self, messages: Iterable[JsonObject], tools: Iterable[JsonObject], system: JsonValue) -> int:
        """A whole request to a provider, with what its answer begins with."""
        total = self.rules.answer + sum(map(self.tool, tools))
        if system is not None:
            total += self.message(system)
        for message in messages:
            total += self.message(message if message.get("tool_calls") else message.get("content"))
            total += self.rules.name if "name" in message else 0
        return total

    def tool(self, tool: JsonObject) -> int:
        """A tool's definition in either provider's form."""
        function = tool.get("function", tool)
        if not isinstance(function, dict):
            return self._json(tool)
        about = f"{function.get('name')}:{function.get('description') or ''}"
        schema = function.get("parameters", function.get("input_schema"))
        return self.rules.tool + self.text(about) + self._schema(schema)

    def _schema(self, schema: JsonValue) -> int:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        if not isinstance(properties, dict) or not properties:
            return 0
        return _PROPERTIES + sum(self._property(name, each) for name, each in properties.items())

    def _property(self, name: str, schema: JsonValue) -> int:
        fields = schema if isinstance(schema, dict) else {}
        kind, description, values = fields.get("type"), fields.get("description"), fields.get("enum")
        shown = kind if isinstance(kind, str) else "" if kind is None else encode(kind).decode()
        total = _PROPERTY + self.text(f"{name}:{shown}:{description or ''}")
        if isinstance(values, list):
            total += _ENUM + sum(_ENUM_VALUE + self.content(each) for each in values)
        return total + self._schema(fields) + self._schema(fields.get("items"))

    def _part(self, part: JsonValue) -> int:
        if not isinstance(part, dict):
            return self._json(part)
        media = media_tokens(part, self.rules.media)
        if media is not None:
            return media
        match part:
            case {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                return self.text(text)
            case {"type": "tool_use", "name": str(name)}:
                return self.rules.call + self.text(name) + self._json(part.get("input"))
            case {"type": "tool_result"}:
                return self.rules.message + self.content(part.get("content"))
        return self._json(part)

    def _openai_call(self, call: JsonValue) -> int:
        function = call.get("function", call.get("custom")) if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return self._json(call)
        name, arguments = function.get("name"), function.get("arguments", function.get("input"))
        return self.rules.call + self.content(name) + self.content(arguments)

    def _json(self, value: JsonValue) -> int:
        return self.text(encode(value).decode("utf-8"))
