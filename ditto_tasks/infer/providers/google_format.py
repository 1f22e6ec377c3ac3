"""The generateContent format of Gemini: requests, and answers as a Sample. Pure."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.providers.answers import (
    action_request,
    assistant_sample,
    finish_reason,
    reported_usage,
)
from ditto_tasks.infer.text import content_text, message_text
from ditto_tasks.infer.values import ActionDescriptor, ActionRequest, FinishReason, Message, Sample
from ditto_tasks.json_values import JsonObject, JsonValue

_FINISH: Mapping[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "error",
    "RECITATION": "error",
    "BLOCKLIST": "error",
    "PROHIBITED_CONTENT": "error",
    "SPII": "error",
    "LANGUAGE": "error",
}
_USAGE = {
    "input_tokens": ("promptTokenCount",),
    "output_tokens": ("candidatesTokenCount",),
    "total_tokens": ("totalTokenCount",),
    "reasoning_tokens": ("thoughtsTokenCount",),
    "cached_input_tokens": ("cachedContentTokenCount",),
}


def request_config(request: ModelRequest) -> JsonObject:
    """Return the request's options; absent values are left to the server."""
    wanted = request.generation
    system = "\n\n".join(message_text(each) for each in request.messages if each.role == "system")
    tools: list[JsonValue] = [_declaration(action) for action in request.actions]
    config: dict[str, JsonValue] = {
        "systemInstruction": system or None,
        "temperature": wanted.temperature,
        "topP": wanted.top_p,
        "topK": wanted.top_k,
        "maxOutputTokens": wanted.max_tokens,
        "stopSequences": list(wanted.stop) if wanted.stop else None,
        "seed": wanted.seed,
        "tools": [{"functionDeclarations": tools}] if tools else None,
    }
    return {key: value for key, value in config.items() if value is not None} | dict(request.provider_options)


def _declaration(action: ActionDescriptor) -> JsonObject:
    declared: JsonObject = {"name": action.name, "parametersJsonSchema": action.input_schema}
    return declared if action.description is None else {**declared, "description": action.description}


def wire_contents(messages: Iterable[Message]) -> list[JsonObject]:
    """Return all but the system messages; results of one turn's actions go into one content."""
    spoken = [message for message in messages if message.role != "system"]
    contents: list[JsonObject] = []
    for is_tool, group in groupby(spoken, key=lambda message: message.role == "tool"):
        if is_tool:
            contents.append({"role": "user", "parts": [_function_response(message) for message in group]})
        else:
            contents.extend({"role": _role(message), "parts": _parts(message)} for message in group)
    return contents


def _role(message: Message) -> str:
    return "model" if message.role == "assistant" else "user"


def _parts(message: Message) -> list[JsonValue]:
    pieces = [message.content] if isinstance(message.content, str) else message.content
    parts: list[JsonValue] = [{"text": content_text(piece)} for piece in pieces if piece != ""]
    requests = (message.metadata or {}).get("actionRequests")
    for item in requests if isinstance(requests, list) else ():
        if isinstance(item, dict):
            call = {"id": item.get("id"), "name": item.get("name"), "args": item.get("arguments", {})}
            parts.append({"functionCall": call})
    return parts


def _function_response(message: Message) -> JsonObject:
    metadata = message.metadata or {}
    name = metadata.get("source") or metadata.get("name") or "action"
    response: JsonObject = {"id": metadata.get("callId"), "name": name}
    return {"functionResponse": {**response, "response": {"output": message_text(message)}}}


def sample_of(chunks: Iterable[JsonObject]) -> Sample:
    """Return the sample that all chunks of an answer hold together; a whole answer is one chunk."""
    parts: list[JsonObject] = []
    finish: JsonValue = None
    usage: JsonValue = None
    for chunk in chunks:
        candidate = _candidate(chunk)
        parts += _candidate_parts(candidate)
        finish = candidate.get("finishReason") or finish
        usage = chunk.get("usageMetadata") or usage
    reason = finish_reason(finish, _FINISH)
    requests = tuple(_action_requests(parts, reason))
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")]
    content = "".join(map(str, texts)) if texts else None
    return assistant_sample(content, requests, reason, reported_usage(usage, _USAGE))


def text_of(chunk: JsonObject) -> str:
    """Return the text that one chunk brings."""
    parts = _candidate_parts(_candidate(chunk))
    return "".join(str(part.get("text", "")) for part in parts if not part.get("thought"))


def _candidate(chunk: JsonObject) -> JsonObject:
    candidates = chunk.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else {}
    return first if isinstance(first, dict) else {}


def _candidate_parts(candidate: JsonObject) -> list[JsonObject]:
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _action_requests(parts: Iterable[JsonObject], finish: FinishReason) -> Iterable[ActionRequest]:
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    for position, call in enumerate(calls):
        if isinstance(call, dict):
            # the format's ids are optional, and a position is as good within one answer
            yield action_request(
                call.get("id") or f"call-{position}", call.get("name"), call.get("args", {}), finish
            )
