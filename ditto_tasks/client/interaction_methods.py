"""INTERACTION as methods of both clients."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Required, Unpack

from ditto_tasks.client.models import read_output
from ditto_tasks.client.node_methods import ActingOptions, C, Domain, Method, Wire, call_of
from ditto_tasks.client.protocol import Call

if TYPE_CHECKING:
    from ditto_tasks.interaction.models import Discovery, Invocation
    from ditto_tasks.interaction.values import (
        ExternalResult,
        InteractionMessage,
        Observation,
        OutputReceipt,
        ToolCall,
    )


class Tool(ActingOptions, total=False):
    """Keywords of `interaction.tool`."""

    call: Required["ToolCall | Wire"]


class Mcp(ActingOptions, total=False):
    """Keywords of `interaction.mcp`: an invocation needs all three."""

    operation: Required[Literal["discover", "invoke"]]
    server: str | None
    call: "ToolCall | Wire"


class Observe(ActingOptions, total=False):
    """Keywords of `interaction.observe`."""

    result: Required["ExternalResult | Wire"]


class Output(ActingOptions, total=False):
    """Keywords of `interaction.output`."""

    delivery_id: Required[str]
    message: Required["InteractionMessage | Wire"]
    artifacts: Sequence[object] | None


class InteractionMethods(Domain[C]):
    """INTERACTION: tools, MCP servers and output; results are those nodes' own values."""

    @Method
    def tool(self, **given: Unpack[Tool]) -> "Call[ExternalResult]":
        """What came of a call of a tool."""
        return _call("INTERACTION.ACT.TOOL", given)

    @Method
    def mcp(self, **given: Unpack[Mcp]) -> "Call[Discovery | Invocation]":
        """What MCP servers offer, or what came of a call of one's tool."""
        return _call("INTERACTION.ACT.MCP", given)

    @Method
    def observe(self, **given: Unpack[Observe]) -> "Call[Observation]":
        """A result as a message that a model can be shown."""
        return _call("INTERACTION.OBSERVE", given)

    @Method
    def output(self, **given: Unpack[Output]) -> "Call[OutputReceipt]":
        """What a sink says of a message."""
        return _call("INTERACTION.OUTPUT", given)


def _call(node: str, given: Wire) -> Call[Any]:
    return call_of(node, given, partial(read_output, node))
