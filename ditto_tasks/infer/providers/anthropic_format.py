"""The Messages format of Anthropic: requests, and answers as a Sample. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from ditto_tasks.errors import InferError
from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.providers.answers import (
    action_request,
    assistant_sample,
    finish_reason,
    reported_usage,
)
from ditto_tasks.infer.text import message_text
from ditto_tasks.infer.values import ActionDescriptor, ActionRequest, FinishReason, Message, Sample
from ditto_tasks.json_values import JsonObject, JsonValue

DEFAULT_MAX_TOKENS = 4_096  # the format has no default of its own
_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "action_request",
    "refusal": "error",
}
_USAGE = {
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "cached_input_tokens": ("cache_read_input_tokens",),
}


def request_body(request: ModelRequest) -> JsonObject:
    """Return the request without model and messages; refuses what the format can't say."""
    wanted = request.generation
    if wanted.seed is not None:
        raise InferError.invalid_input("/generation/seed", "the chosen provider has no seed")
    body: dict[str, JsonValue] = {
        "max_tokens": wanted.max_tokens or DEFAULT_MAX_TOKENS,
        "system": "\n\n".join(message_text(each) for each in request.messages if each.role == "system")
        or None,
        "temperature": wanted.temperature,
        "top_p": wanted.top_p,
        "top_k": wanted.top_k,
        "stop_sequences": list(wanted.stop) if wanted.stop else None,
        "tools": [_tool(action) for action in request.actions] or None,
    }
    return {key: value for key, value in body.items() if value is not None} | dict(request.provider_options)


def _tool(action: ActionDescriptor) -> JsonObject:
    tool: JsonObject = {"name": action.name, "input_schema": action.input_schema}
    if action.description is not None:
        tool["description"] = action.description
    return tool


def wire_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Return all but the system messages; results of one turn's actions go into one message."""
    spoken = [message for message in messages if message.role != "system"]
    wire: list[JsonObject] = []
    for is_tool, group in groupby(spoken, key=lambda message: message.role == "tool"):
        if is_tool:
            wire.append({"role": "user", "content": [_tool_result(message) for message in group]})
        else:
            wire.extend({"role": message.role, "content": _content(message)} for message in group)
    return wire


def _tool_result(message: Message) -> JsonObject:
    call_id = (message.metadata or {}).get("callId", "")
    return {"type": "tool_result", "tool_use_id": call_id, "content": message_text(message)}


def _content(message: Message) -> JsonValue:
    requests = (message.metadata or {}).get("actionRequests")
    if message.role == "assistant" and isinstance(requests, list) and requests:
        return [*_parts(message), *(_tool_use(item) for item in requests if isinstance(item, dict))]
    return message.content if isinstance(message.content, str) else _parts(message)


def _parts(message: Message) -> list[JsonValue]:
    parts = [message.content] if isinstance(message.content, str) else message.content
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts if part != ""]


def _tool_use(item: Mapping[str, JsonValue]) -> JsonObject:
    return {
        "type": "tool_use",
        "id": item.get("id"),
        "name": item.get("name"),
        "input": item.get("arguments", {}),
    }


def sample_of(answer: JsonObject) -> Sample:
    """Return the sample that a complete answer holds."""
    blocks = answer.get("content")
    if not isinstance(blocks, list):
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer has no content")
    finish = finish_reason(answer.get("stop_reason"), _FINISH)
    known = [block for block in blocks if isinstance(block, dict)]
    requests = tuple(_action_requests(known, finish))
    texts = [block.get("text") for block in known if block.get("type") == "text"]
    content = "".join(text for text in texts if isinstance(text, str)) if texts else None
    return assistant_sample(content, requests, finish, reported_usage(answer.get("usage"), _USAGE))


def _action_requests(blocks: Iterable[JsonObject], finish: FinishReason) -> Iterable[ActionRequest]:
    for block in blocks:
        if block.get("type") == "tool_use":
            yield action_request(block.get("id"), block.get("name"), block.get("input"), finish)


@dataclass
class StreamedMessage:
    """Puts the events of a streamed message together to a complete one."""

    blocks: dict[int, JsonObject] = field(default_factory=dict)
    usage: JsonObject = field(default_factory=dict)
    finish: JsonValue = None

    def add(self, chunk: JsonObject) -> str:
        """Take one event; return the text that it brought."""
        match chunk.get("type"):
            case "error":
                raise InferError("MODEL_ERROR", "the model failed while it answered")
            case "message_start":
                self._add_usage(chunk.get("message"))
            case "message_delta":
                delta = chunk.get("delta")
                self.finish = delta.get("stop_reason") if isinstance(delta, dict) else None
                self._add_usage(chunk)
            case "content_block_start":
                return self._start(chunk)
            case "content_block_delta":
                return self._extend(chunk)
        return ""

    def _add_usage(self, holder: JsonValue) -> None:
        usage = holder.get("usage") if isinstance(holder, dict) else None
        self.usage |= usage if isinstance(usage, dict) else {}

    def _start(self, chunk: JsonObject) -> str:
        block = chunk.get("content_block")
        if isinstance(block, dict):
            started = {key: value for key, value in block.items() if key != "input"}
            self.blocks[_index(chunk)] = started
            text = started.get("text")
            return text if isinstance(text, str) else ""
        return ""

    def _extend(self, chunk: JsonObject) -> str:
        delta, block = chunk.get("delta"), self.blocks.setdefault(_index(chunk), {})
        if not isinstance(delta, dict):
            return ""
        for name, target in (("text", "text"), ("partial_json", "input")):
            part = delta.get(name)
            if isinstance(part, str):
                block[target] = str(block.get(target, "")) + part
        text = delta.get("text")
        return text if isinstance(text, str) else ""

    def complete(self) -> JsonObject:
        """Return the answer in the form of one that was not streamed; inputs are still JSON text."""
        blocks = [block for _, block in sorted(self.blocks.items())]
        for block in blocks:
            if block.get("type") == "tool_use":
                block.setdefault("input", "")
        return {"content": [*blocks], "stop_reason": self.finish, "usage": self.usage}


def _index(chunk: JsonObject) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0
