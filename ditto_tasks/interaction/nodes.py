"""The INTERACTION nodes in process: business failures are values, refusals are InteractionErrors."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ditto_tasks.entry_limit import EntryLimit
from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.acting import Actions, act_mcp, act_tool
from ditto_tasks.interaction.base import ActionCall, InteractionCall, McpClient, OutputSink, ToolError
from ditto_tasks.interaction.bounded import BoundedRunner
from ditto_tasks.interaction.delivering import deliver
from ditto_tasks.interaction.models import (
    ActMcpInput,
    ActToolInput,
    Discovery,
    Invocation,
    ObserveInput,
    OutputInput,
)
from ditto_tasks.interaction.observing import observe
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.results import MAX_OUTPUT_BYTES
from ditto_tasks.interaction.values import ExternalResult, Observation, OutputReceipt
from ditto_tasks.models import NodeInput, from_wire

ACT_TOOL = "INTERACTION.ACT.TOOL"
ACT_MCP = "INTERACTION.ACT.MCP"
OBSERVE = "INTERACTION.OBSERVE"
OUTPUT = "INTERACTION.OUTPUT"
NODE_TYPES = (ACT_TOOL, ACT_MCP, OBSERVE, OUTPUT)
TIMEOUT_MS = 30_000
NO_LIMITS = InteractionCall()


class InteractionNodes:
    """Acts, observes and puts out. Everything is denied unless ``permissions`` allow it.

    What an action did is a value with a status. Raises NodeInputError for wrong input, InteractionError for
    what is denied, not there or broken; docs/tasks.md lists the codes. ``timeout_ms`` is of one call,
    ``max_output_bytes`` of its output as JSON.
    """

    def __init__(
        self,
        registry: ToolRegistry | None = None,
        *,
        permissions: Permissions | None = None,
        mcp: McpClient | None = None,
        sink: OutputSink | None = None,
        timeout_ms: int = TIMEOUT_MS,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        now: Callable[[], float] = time.monotonic,
        concurrency: int | None = None,
    ) -> None:
        self._entries = EntryLimit(concurrency)
        self.registry = registry or ToolRegistry()
        self._runner = BoundedRunner()
        self._actions = Actions(
            permissions=permissions or Permissions(),
            registry=self.registry,
            mcp=mcp,
            runner=self._runner,
            max_output_bytes=max_output_bytes,
        )
        self._sink = sink
        self._timeout_ms = timeout_ms
        self._now = now

    def act_tool(self, given: NodeInput, *, call: InteractionCall = NO_LIMITS) -> ExternalResult:
        """INTERACTION.ACT.TOOL: one call of a registered tool."""
        tool_call = from_wire(ActToolInput, given).call
        action = self._action(tool_call.id, call, self.registry.timeout_ms(tool_call.name))
        with self._entries.entered(partial(_is_over, call, action)):
            return act_tool(tool_call, self._actions, _limits(call, action), action)

    def act_mcp(self, given: NodeInput, *, call: InteractionCall = NO_LIMITS) -> Discovery | Invocation:
        """INTERACTION.ACT.MCP: what servers offer, or one call of a server's tool."""
        parsed = from_wire(ActMcpInput, given).root
        call_id = parsed.operation if parsed.operation == "discover" else parsed.call.id
        action = self._action(call_id, call)
        with self._entries.entered(partial(_is_over, call, action)):
            return act_mcp(parsed, self._actions, _limits(call, action), action)

    def observe(self, given: NodeInput) -> Observation:
        """INTERACTION.OBSERVE: a result as a message."""
        return observe(from_wire(ObserveInput, given).result)

    def output(self, given: NodeInput, *, call: InteractionCall = NO_LIMITS) -> OutputReceipt:
        """INTERACTION.OUTPUT: one delivery."""
        parsed = from_wire(OutputInput, given)
        action = self._action(parsed.delivery_id, call)
        with self._entries.entered(partial(_is_over, call, action)):
            return deliver(parsed, self._sink, self._runner, _limits(call, action), action)

    def execute(
        self, node: str, given: NodeInput, *, call: InteractionCall = NO_LIMITS
    ) -> ExternalResult | Discovery | Invocation | Observation | OutputReceipt:
        """Run a node by its type."""
        if node == ACT_TOOL:
            return self.act_tool(given, call=call)
        if node == ACT_MCP:
            return self.act_mcp(given, call=call)
        if node == OBSERVE:
            return self.observe(given)
        if node == OUTPUT:
            return self.output(given, call=call)
        raise InteractionError("UNKNOWN_NODE", "no such INTERACTION node")

    def close(self) -> None:
        """Nothing is open."""

    def _action(self, call_id: str, call: InteractionCall, own_ms: int | None = None) -> ActionCall:
        timeout_ms = call.timeout_ms or own_ms or self._timeout_ms
        deadline_s = self._now() + timeout_ms / 1000
        return ActionCall(
            call_id=call_id, token=call.token, deadline_s=deadline_s, now=self._now, root=call.root
        )


def _limits(call: InteractionCall, action: ActionCall) -> InteractionCall:
    """The same limits; what is to be begun must be in time, too."""

    def admit() -> None:
        call.admit()
        _check(action)

    return replace(call, admit=admit)


def _is_over(call: InteractionCall, action: ActionCall) -> bool:
    """Whether a call that waits for its turn goes on without one: to its record, since it begins nothing."""
    if call.once is None:
        _check(action)
    return action.token.cancelled or action.now() >= action.deadline_s


def _check(action: ActionCall) -> None:
    """Raise when a call is not to begin anything any more."""
    try:
        action.remaining_s()
    except ToolError as error:
        raise InteractionError(error.code, error.message) from error
