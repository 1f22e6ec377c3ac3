"""Inputs of the INTERACTION nodes, and the two outputs of ACT.MCP."""

from typing import Annotated, Literal

from pydantic import Field, RootModel

from ditto_tasks.interaction.values import ExternalResult, InteractionMessage, ToolCall
from ditto_tasks.models import Json, JsonMap, NonEmptyText, Text, WireModel


class ActToolInput(WireModel):
    """Input of INTERACTION.ACT.TOOL."""

    call: ToolCall


class DiscoverInput(WireModel):
    """Asks what one MCP server, or every permitted one, offers."""

    operation: Literal["discover"]
    server: NonEmptyText | None = None


class InvokeInput(WireModel):
    """Calls a tool of an MCP server."""

    operation: Literal["invoke"]
    server: NonEmptyText
    call: ToolCall


class ActMcpInput(RootModel[Annotated[DiscoverInput | InvokeInput, Field(discriminator="operation")]]):
    """Input of INTERACTION.ACT.MCP."""


class Capability(WireModel):
    """One thing that an MCP server offers."""

    server: NonEmptyText
    kind: Literal["tool", "resource", "prompt"]
    name: NonEmptyText
    description: Text | None = None
    input_schema: JsonMap | None = None


class Discovery(WireModel):
    """Output of a discovery."""

    operation: Literal["discover"] = "discover"
    capabilities: tuple[Capability, ...]


class Invocation(WireModel):
    """Output of an invocation."""

    operation: Literal["invoke"] = "invoke"
    result: ExternalResult


class ActMcpOutput(RootModel[Annotated[Discovery | Invocation, Field(discriminator="operation")]]):
    """Output of INTERACTION.ACT.MCP."""


class ObserveInput(WireModel):
    """Input of INTERACTION.OBSERVE."""

    result: ExternalResult


class OutputInput(WireModel):
    """Input of INTERACTION.OUTPUT."""

    delivery_id: NonEmptyText
    message: InteractionMessage
    artifacts: tuple[Json, ...] | None = None
