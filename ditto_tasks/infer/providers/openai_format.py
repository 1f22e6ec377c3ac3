"""The chat-completions format: requests as OpenAI-compatible servers read them, answers as a Sample. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
from ditto_tasks.json_values import JsonObject, JsonValue, encode

# "eos" and "end_turn" are what some compatible servers say for "stop"
_FINISH: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "tool_calls": "action_request",
    "function_call": "action_request",
    "content_filter": "error",
}
_USAGE = {
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "total_tokens": ("total_tokens",),
    "reasoning_tokens": ("completion_tokens_details", "reasoning_tokens"),
    "cached_input_tokens": ("prompt_tokens_details", "cached_tokens"),
}


def request_body(request: ModelRequest) -> JsonObject:
    """Return the request without model and messages; absent values are left to the server."""
    wanted = request.generation
    body: dict[str, JsonValue] = {
        "temperature": wanted.temperature,
        "top_p": wanted.top_p,
        "top_k": wanted.top_k,
        "max_tokens": wanted.max_tokens,
        "stop": list(wanted.stop) if wanted.stop else None,
        "seed": wanted.seed,
        "tools": [_tool(action) for action in request.actions] or None,
    }
    return {key: value for key, value in body.items() if value is not None} | dict(request.provider_options)


def _tool(action: ActionDescriptor) -> JsonObject:
    function: JsonObject = {"name": action.name, "parameters": action.input_schema}
    if action.description is not None:
        function["description"] = action.description
    return {"type": "function", "function": function}


def wire_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """Return the messages; earlier action requests and their call ids are read from the metadata."""
    return [_message(message) for message in messages]


def _message(message: Message) -> JsonObject:
    metadata = message.metadata or {}
    if message.role == "tool":
        return {"role": "tool", "content": message_text(message), "tool_call_id": metadata.get("callId", "")}
    wire: JsonObject = {"role": message.role, "content": _content(message)}
    requests = metadata.get("actionRequests")
    if message.role == "assistant" and isinstance(requests, list) and requests:
        wire["tool_calls"] = [_tool_call(item) for item in requests if isinstance(item, dict)]
    return wire


def _content(message: Message) -> JsonValue:
    if isinstance(message.content, str):
        return message.content
    return [{"type": "text", "text": part} if isinstance(part, str) else part for part in message.content]


def _tool_call(item: Mapping[str, JsonValue]) -> JsonObject:
    arguments = encode(item.get("arguments", {})).decode("utf-8")
    return {
        "id": item.get("id"),
        "type": "function",
        "function": {"name": item.get("name"), "arguments": arguments},
    }


def sample_of(answer: JsonObject) -> Sample:
    """Return the first choice of a complete answer."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer has no message")
    finish = finish_reason(choice.get("finish_reason"), _FINISH)
    requests = tuple(_action_requests(message.get("tool_calls"), finish))
    content = message.get("content") or message.get("refusal")
    return assistant_sample(content, requests, finish, reported_usage(answer.get("usage"), _USAGE))


def _action_requests(calls: JsonValue, finish: FinishReason) -> Iterable[ActionRequest]:
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer has a malformed action request")
        yield action_request(call.get("id"), function.get("name"), function.get("arguments"), finish)


@dataclass
class StreamedAnswer:
    """Puts the chunks of a streamed answer together to a complete one."""

    content: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, str]] = field(default_factory=dict)
    finish: JsonValue = None
    usage: JsonValue = None

    def add(self, chunk: JsonObject) -> str:
        """Take one chunk; return the text that it brought."""
        if "error" in chunk:
            raise InferError("MODEL_ERROR", "the model failed while it answered")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else {}
        if not isinstance(choice, dict):
            return ""
        self.finish = choice.get("finish_reason") or self.finish
        delta = choice.get("delta")
        return self._add_delta(delta) if isinstance(delta, dict) else ""

    def _add_delta(self, delta: JsonObject) -> str:
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._add_call(call)
        text = delta.get("content") or delta.get("refusal")
        if not isinstance(text, str):
            return ""
        self.content.append(text)
        return text

    def _add_call(self, call: JsonObject) -> None:
        index = call.get("index")
        known = self.calls.setdefault(index if isinstance(index, int) else len(self.calls), {})
        function = call.get("function")
        parts = {"id": call.get("id")} | (function if isinstance(function, dict) else {})
        for name in ("id", "name", "arguments"):
            part = parts.get(name)
            if isinstance(part, str):
                known[name] = known.get(name, "") + part

    def complete(self) -> JsonObject:
        """Return the answer in the form of one that was not streamed."""
        calls: list[JsonValue] = [
            {"id": call.get("id"), "function": {"name": call.get("name"), "arguments": call.get("arguments")}}
            for _, call in sorted(self.calls.items())
        ]
        message: JsonObject = {"content": "".join(self.content) or None, "tool_calls": calls}
        return {"choices": [{"message": message, "finish_reason": self.finish}], "usage": self.usage}
