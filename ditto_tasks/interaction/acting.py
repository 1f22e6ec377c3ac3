"""ACT.TOOL and ACT.MCP: permission, registration, arguments, execution, result — in this order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from ditto_tasks.errors import InteractionError, raised
from ditto_tasks.interaction.base import (
    ActionCall,
    EffectUnknownError,
    InteractionCall,
    McpClient,
    Tool,
    ToolError,
)
from ditto_tasks.interaction.bounded import BoundedRunner
from ditto_tasks.interaction.mcp_answers import MAX_CAPABILITIES
from ditto_tasks.interaction.models import Capability, DiscoverInput, Discovery, Invocation, InvokeInput
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.results import MAX_OUTPUT_BYTES, as_tool_error, failure_result, success_result
from ditto_tasks.interaction.values import ExternalResult, ToolCall
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Actions:
    """What actions of a worker have in common."""

    permissions: Permissions
    registry: ToolRegistry
    mcp: McpClient | None
    runner: BoundedRunner
    max_output_bytes: int = MAX_OUTPUT_BYTES


def act_tool(call: ToolCall, actions: Actions, limits: InteractionCall, action: ActionCall) -> ExternalResult:
    """Run one tool; raises InteractionError for what must not or can't be run."""
    actions.permissions.require_tool(call.name)
    registered = actions.registry.find(call.name)
    actions.permissions.require(registered.tool.needs)
    try:
        registered.schema.check(call.arguments)
    except ToolError as error:
        return failure_result(call.id, call.name, error)

    def effect() -> ExternalResult:
        return _run_tool(registered.tool, call, actions, action)

    if registered.tool.read_only:
        limits.admit()
        return effect()
    return once(call, call.name, limits, effect)


def _run_tool(tool: Tool, call: ToolCall, actions: Actions, action: ActionCall) -> ExternalResult:
    try:
        output = actions.runner.run(lambda: tool.run(call.arguments, action), action)
    except Exception as error:  # noqa: BLE001 - a tool is foreign code: every failure is a value
        failed = as_tool_error(error, action.token)
        if failed.code == "TOOL_FAILED":
            _log.warning("the tool %s met %s", call.name, raised(error))
        if failed.status == "cancelled":
            failed.code = tool.cancelled_code
        return failure_result(call.id, call.name, failed)
    return success_result(call.id, call.name, output, max_bytes=actions.max_output_bytes)


def once(
    call: ToolCall, source: str, limits: InteractionCall, effect: Callable[[], ExternalResult]
) -> ExternalResult:
    """Return the recorded result of the effect, or run it; an unknown outcome is a result too."""
    if limits.once is None:
        limits.admit()
        return effect()
    inputs: JsonValue = {"source": source, "arguments": call.arguments}
    try:
        recorded = limits.once(inputs, lambda: to_wire(effect()), limits.admit)
        return ExternalResult.model_validate(recorded).model_copy(update={"call_id": call.id})
    except EffectUnknownError as error:
        return failure_result(call.id, source, ToolError(error.code, error.message, status="unknown"))
    except ValidationError as error:
        raise InteractionError("INVALID_RECORD", "the recorded result can't be read") from error


def act_mcp(
    given: DiscoverInput | InvokeInput, actions: Actions, limits: InteractionCall, action: ActionCall
) -> Discovery | Invocation:
    """Discover what servers offer, or call one tool of one server."""
    if actions.mcp is None:
        raise InteractionError("MCP_UNAVAILABLE", "no MCP server is configured")
    if isinstance(given, DiscoverInput):
        limits.admit()
        return _discover(given, actions, actions.mcp, action)
    actions.permissions.require_mcp(given.server)
    return Invocation(result=_invoke(given, actions, actions.mcp, limits, action))


def _discover(given: DiscoverInput, actions: Actions, mcp: McpClient, action: ActionCall) -> Discovery:
    servers = [given.server] if given.server is not None else sorted(actions.permissions.mcp)
    found: list[Capability] = []
    for server in servers:
        actions.permissions.require_mcp(server)
        found += mcp.discover(server, action)
        if len(found) > MAX_CAPABILITIES:
            raise InteractionError(
                "MCP_LIMIT_EXCEEDED", f"more than {MAX_CAPABILITIES} capabilities are offered"
            )
    return Discovery(capabilities=tuple(found))


def _invoke(
    given: InvokeInput, actions: Actions, mcp: McpClient, limits: InteractionCall, action: ActionCall
) -> ExternalResult:
    source = f"{given.server}/{given.call.name}"

    def effect() -> ExternalResult:
        try:
            output = mcp.invoke(given.server, given.call, action)
        except Exception as error:  # noqa: BLE001 - a server is foreign: every failure is a value
            return failure_result(given.call.id, source, as_tool_error(error, action.token))
        return success_result(given.call.id, source, output, max_bytes=actions.max_output_bytes)

    return once(given.call, source, limits, effect)
