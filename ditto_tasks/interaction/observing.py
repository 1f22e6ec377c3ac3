"""OBSERVE: an external result as a message that a model reads. Pure; never promotes a failure."""

from ditto_tasks.interaction.values import ExternalResult, InteractionMessage, Observation
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire


def observe(result: ExternalResult) -> Observation:
    """Return the observation of a result; its status, error and attachments stay as they are."""
    message = InteractionMessage(role="tool", content=_content(result), name=result.source)
    return Observation(
        call_id=result.call_id,
        source=result.source,
        status=result.status,
        message=message,
        structured_content=result.structured_content,
        references=result.references,
        error=result.error,
        metadata=result.metadata,
    )


def _content(result: ExternalResult) -> JsonValue:
    if result.status != "success" and result.error is not None:
        return f"{result.status}: {result.error.code}: {result.error.message}"
    if result.content is not None:
        return simplified(to_wire(result.content))
    if result.structured_content is not None:
        return result.structured_content
    return to_wire(list(result.references or ()))


def simplified(content: JsonValue) -> JsonValue:
    """Return the string of a single text part, and other content as it is."""
    if isinstance(content, list) and len(content) == 1:
        part = content[0]
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            return part["text"]
    return content
