"""Blocks of one provider as the other one takes them."""

from __future__ import annotations

from typing import Final

from ditto_tasks.context.conversations.marks import OPENAI, blocks_of, fields_of, is_format, unwritable
from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.text import text_of
from ditto_tasks.json_values import InvalidJson, JsonObject, JsonValue, decode, encode

_DATA_URL: Final = "data:"
_BASE64: Final = ";base64,"


def is_blank(block: JsonObject) -> bool:
    """Whether it is a text block without text, which providers refuse."""
    text = block.get("text")
    return block.get("type") == "text" and (not isinstance(text, str) or not text.strip())


def to_anthropic(item: ContextItem, content: JsonValue) -> list[JsonObject]:
    """A content as Anthropic's blocks; blank text gives none."""
    if isinstance(content, list) and len(blocks_of(content)) == len(content):
        blocks = blocks_of(content)
        if is_format(item, OPENAI):
            blocks = [_anthropic_block(item, block) for block in blocks]
    else:
        text = content if isinstance(content, str) else "" if content is None else text_of(content)
        blocks = [{"type": "text", "text": text}]
    refusal = fields_of(item).get("refusal")
    if isinstance(refusal, str):
        blocks = [*blocks, {"type": "text", "text": refusal}]
    return [block for block in blocks if not is_blank(block)]


def _anthropic_block(item: ContextItem, block: JsonObject) -> JsonObject:
    match block:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            return {"type": "image", "source": _source(url)}
        case {"type": "file", "file": {"file_data": str(url)}} if url.startswith(_DATA_URL):
            return {"type": "document", "source": _source(url)}
    raise unwritable(item, f"Anthropic takes no block of type {block.get('type')}")


def _source(url: str) -> JsonObject:
    if not url.startswith(_DATA_URL) or _BASE64 not in url:
        return {"type": "url", "url": url}
    media, _, data = url[len(_DATA_URL) :].partition(_BASE64)
    return {"type": "base64", "media_type": media, "data": data}


def to_openai(item: ContextItem, content: JsonValue, *, own: bool) -> JsonValue:
    """A content as OpenAI's string or parts. `own` parts are kept as they are, but for blank ones."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list) or len(blocks_of(content)) != len(content):
        return text_of(content)
    if own:
        kept: list[JsonValue] = [block for block in blocks_of(content) if not is_blank(block)]
        return content if len(kept) == len(content) and kept else kept or ""
    parts = [part for block in blocks_of(content) if (part := _openai_part(item, block)) is not None]
    if all(part["type"] == "text" for part in parts) and len(parts) <= 1:
        return parts[0]["text"] if parts else ""
    return list(parts)


def _openai_part(item: ContextItem, block: JsonObject) -> JsonObject | None:
    if is_blank(block) or block.get("type") in ("thinking", "redacted_thinking", "tool_use"):
        return None  # thinking is signed for its own provider only; calls stand apart
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": dict(source)}:
            return {"type": "image_url", "image_url": {"url": _url(item, source)}}
        case {"type": "document", "source": dict(source)} if source.get("type") == "base64":
            name = block.get("title") or "document.pdf"
            return {"type": "file", "file": {"filename": name, "file_data": _url(item, source)}}
    raise unwritable(item, f"OpenAI takes no block of type {block.get('type')}")


def _url(item: ContextItem, source: JsonObject) -> str:
    match source:
        case {"type": "base64", "media_type": str(media), "data": str(data)}:
            return f"{_DATA_URL}{media}{_BASE64}{data}"
        case {"type": "url", "url": str(url)}:
            return url
    raise unwritable(item, "its image or document is in the other provider's file store")


def as_input(arguments: JsonValue) -> JsonObject:
    """Arguments as Anthropic's object. What a model wrote may be no JSON at all: it is kept as text."""
    if isinstance(arguments, dict):
        return arguments
    text = arguments if isinstance(arguments, str) else ""
    try:
        value = decode(text or "{}")
    except InvalidJson:
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def as_arguments(arguments: JsonValue) -> str:
    """Arguments as OpenAI's JSON text."""
    if isinstance(arguments, str):
        return arguments
    return encode({} if arguments is None else arguments).decode("utf-8")
