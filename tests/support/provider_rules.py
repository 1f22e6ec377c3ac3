"""What providers accept as a message list, from their documentation; each answers what is wrong, or nothing.

OpenAI chat completions: an assistant message with tool_calls is followed at once by one tool message for
each of its call ids and by nothing else before those; a tool message stands nowhere else; ids are unique in
their message and at most 40 characters; function names match [a-zA-Z0-9_-]{1,64}; content is a string or a
nonempty array of parts, and may be null for an assistant with calls only.

Anthropic messages: the system prompt stands apart; the first message is the user's; each tool_use is
answered by a tool_result in the very next message, where results come first; ids are unique in the list;
no text block is blank and no content is empty; two messages of one role in a row are merged by the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_AUTHOR = re.compile(r"[^\s<|\\/>]{1,64}")
_OPENAI_ROLES = {"system", "developer", "user", "assistant", "tool"}


def openai_faults(messages: list[Message]) -> list[str]:
    """Why the chat completions API would answer 400."""
    faults = [f"{at}: {fault}" for at, message in enumerate(messages) for fault in _openai_message(message)]
    waiting: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                faults.append(f"{at}: a tool message answers no call right before it")
            continue
        if waiting:
            faults.append(f"{at}: calls {waiting} are not answered")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        faults.append(f"the last calls {waiting} are not answered")
    if not any(message["role"] in ("user", "assistant") for message in messages):
        faults.append("nothing but system messages")
    return faults


def _openai_message(message: Message) -> Iterator[str]:
    role = message.get("role")
    if role not in _OPENAI_ROLES:
        yield f"role {role}"
    if "name" in message and not _AUTHOR.fullmatch(message["name"]):
        yield "the author's name"
    calls = message.get("tool_calls")
    if calls is not None:
        yield from _openai_calls(role, calls)
    silent = role == "assistant" and (calls or message.get("refusal") or message.get("audio"))
    if message.get("content") is None:
        if not silent:
            yield "no content"
    else:
        yield from _openai_content(message["content"])


def _openai_calls(role: str | None, calls: list[Message]) -> Iterator[str]:
    if role != "assistant" or not calls:
        yield "tool_calls that are empty or not an assistant's"
    ids = [call.get("id") for call in calls]
    if len(set(ids)) < len(ids) or not all(isinstance(each, str) and 0 < len(each) <= 40 for each in ids):
        yield f"call ids {ids}"
    for call in calls:
        function = call.get("function", call.get("custom"))
        if call.get("type") not in ("function", "custom") or not _NAME.fullmatch(function["name"]):
            yield f"call {call}"
        elif call["type"] == "function" and not isinstance(function["arguments"], str):
            yield "arguments that are no text"


def _openai_content(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        yield "content that is neither a string nor parts"
        return
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            yield f"part {part}"
        elif part["type"] == "text" and not part.get("text"):
            yield "an empty text part"


def anthropic_faults(messages: list[Message], system: Any = None) -> list[str]:
    """Why the messages API would answer 400."""
    faults = [f"system: {fault}" for fault in _blocks(system)] if system is not None else []
    faults += [
        f"{at}: {fault}" for at, message in enumerate(messages) for fault in _anthropic_message(message)
    ]
    if not messages or messages[0]["role"] != "user":
        faults.append("the first message is not the user's")
    ids = [block["id"] for message in messages for block in _of_type(message, "tool_use")]
    if len(set(ids)) < len(ids):
        faults.append("tool_use ids repeat")
    for at, message in enumerate(messages):
        asked = [block["id"] for block in _of_type(message, "tool_use")]
        if asked and sorted(asked) != sorted(_results(messages[at + 1 : at + 2])):
            faults.append(f"{at}: tool_use without its tool_result in the next message")
        before = messages[at - 1] if at else {"role": "", "content": []}
        known = {block["id"] for block in _of_type(before, "tool_use")}
        if not set(_results([message])) <= known:
            faults.append(f"{at}: tool_result without its tool_use in the message before")
    return faults


def _anthropic_message(message: Message) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        yield f"role {role}"
    yield from _blocks(content)
    if not isinstance(content, list):
        return
    kinds = [block.get("type") for block in content if isinstance(block, dict)]
    if "tool_result" in kinds and (
        role != "user" or kinds[: kinds.count("tool_result")] != ["tool_result"] * kinds.count("tool_result")
    ):
        yield "tool results that do not come first in a user's message"
    if "tool_use" in kinds and role != "assistant":
        yield "tool_use of a user"


def _blocks(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield "blank content"
        return
    if not isinstance(content, list) or not content:
        yield "empty content"
        return
    for block in content:
        match block:
            case {"type": "text"} if not str(block.get("text", "")).strip():
                yield "a blank text block"
            case {"type": "tool_use"}:
                yield from _tool_use(block)
            case {"type": "tool_result", "content": list(inner)}:
                yield from (_blocks(inner) if inner else ())
            case {"type": str()}:
                pass
            case _:
                yield f"block {block}"


def _tool_use(block: Message) -> Iterator[str]:
    if not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) or not _NAME.fullmatch(block["name"]):
        yield f"tool_use {block['id']} {block['name']}"
    if not isinstance(block["input"], dict):
        yield "input that is no object"


def _of_type(message: Message, kind: str) -> list[Message]:
    content = message["content"] if isinstance(message["content"], list) else []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]


def _results(messages: list[Message]) -> list[str]:
    return [block["tool_use_id"] for each in messages for block in _of_type(each, "tool_result")]
