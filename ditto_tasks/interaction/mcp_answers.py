"""What an MCP server answered, as our values. Its texts are not trusted. Pure."""

from typing import Final, Literal

from pydantic import ValidationError

from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.base import ToolError, ToolOutput
from ditto_tasks.interaction.models import Capability
from ditto_tasks.json_values import JsonObject, JsonValue

MAX_CAPABILITIES: Final = 1_000  # of one server, and of all that one discovery asks
CapabilityKind = Literal["tool", "resource", "prompt"]


def limit_exceeded(what: str) -> InteractionError:
    """The error of a server that offers too much."""
    return InteractionError("MCP_LIMIT_EXCEEDED", f"the MCP server offers {what}")


def capability(server: str, kind: CapabilityKind, item: object) -> Capability:
    """Return one listed item as a capability; raises MCP_PROTOCOL_ERROR."""
    given = item if isinstance(item, dict) else {}
    fields = {"server": server, "kind": kind, "name": given.get("name")}
    optional = {"description": given.get("description"), "inputSchema": given.get("inputSchema")}
    try:
        return Capability.model_validate(
            fields | {key: value for key, value in optional.items() if value is not None}
        )
    except ValidationError as error:
        raise InteractionError("MCP_PROTOCOL_ERROR", "the MCP server listed something unreadable") from error


def tool_result(answer: JsonObject) -> ToolOutput:
    """Return a call's output; one that the server calls an error is a failure without its text."""
    if answer.get("isError"):
        raise ToolError("MCP_TOOL_ERROR", "the MCP tool reported an error")
    content = answer.get("content")
    return ToolOutput(
        content=content if isinstance(content, list) and content else None,
        structured_content=_structured(answer.get("structuredContent")),
    )


def _structured(value: JsonValue) -> JsonObject | None:
    if value is None:
        return None
    # newer servers may give any JSON, our structured content is an object
    return value if isinstance(value, dict) else {"value": value}
