"""What the answers of all HTTP providers have in common: text, action requests and usage. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from ditto_tasks.errors import InferError
from ditto_tasks.infer.providers.reading import json_object
from ditto_tasks.infer.values import ActionRequest, FinishReason, Message, Sample, Usage
from ditto_tasks.json_values import JsonValue


def finish_reason(value: JsonValue, known: Mapping[str, FinishReason]) -> FinishReason:
    """Return a format's reason in our words; an answer without one was cut off."""
    if value is None:
        raise InferError("INCOMPLETE_MODEL_OUTPUT", "the provider's answer has no end")
    if not isinstance(value, str) or value not in known:
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer ends for an unknown reason")
    return known[value]


def assistant_sample(
    content: JsonValue, requests: Sequence[ActionRequest], finish: FinishReason, usage: Usage | None
) -> Sample:
    """Return the sample; an answer with neither text nor a request is refused."""
    if not isinstance(content, str | list) and not requests and finish != "error":
        raise InferError(
            "INVALID_MODEL_OUTPUT", "the provider's answer has neither content nor an action request"
        )
    # some servers say "stop" although they ask for an action
    reason: FinishReason = "action_request" if requests and finish == "stop" else finish
    message = Message.model_validate({"role": "assistant", "content": content or ""})
    return Sample(message=message, action_requests=tuple(requests) or None, finish_reason=reason, usage=usage)


def action_request(
    call_id: JsonValue, name: JsonValue, arguments: JsonValue, finish: FinishReason
) -> ActionRequest:
    """Return one action request; arguments are an object, or its JSON text."""
    try:
        given = {"id": call_id, "name": name, "arguments": _arguments(arguments)}
        return ActionRequest.model_validate(given)
    except (InferError, ValidationError) as error:
        cut = finish == "length"
        code = "INCOMPLETE_MODEL_OUTPUT" if cut else "INVALID_MODEL_OUTPUT"
        raise InferError(code, "the model's action request is not a named call with an object") from error


def _arguments(arguments: JsonValue) -> JsonValue:
    # an action without parameters is often sent without any text at all
    return json_object(arguments or "{}") if isinstance(arguments, str) else arguments


def reported_usage(usage: JsonValue, paths: Mapping[str, tuple[str, ...]]) -> Usage | None:
    """Return the counts that were reported as such; anything else stays absent."""
    counts = {name: _count(usage, path) for name, path in paths.items()}
    known = {name: count for name, count in counts.items() if count is not None}
    return Usage(**known) if known else None


def _count(value: JsonValue, path: tuple[str, ...]) -> int | None:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
