"""Text of message contents: what a model is shown, and what the extractive provider reads."""

from __future__ import annotations

from ditto_tasks.infer.values import Message
from ditto_tasks.json_values import JsonValue, encode


def part_text(part: JsonValue) -> str:
    """Return a part's own text, or its JSON."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    return encode(part).decode("utf-8")


def content_text(content: JsonValue | tuple[JsonValue, ...]) -> str:
    """Return string content as it is, parts joined by a line each, anything else as JSON."""
    if isinstance(content, list | tuple):
        return "\n".join(part_text(part) for part in content)
    return part_text(content)


def message_text(message: Message) -> str:
    """Return the text of a message."""
    return content_text(message.content)
