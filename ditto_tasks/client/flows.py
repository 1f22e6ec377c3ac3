"""The flows as methods of both clients: `client.<flow>(scope=…, **input)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast, overload
from uuid import uuid4

from ditto_tasks.client.protocol import node_call
from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.errors import NodeInputError, ServiceError
from ditto_tasks.interaction.models import ActMcpOutput
from ditto_tasks.interaction.values import ExternalResult, Observation
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.pipelines.flow_models import (
    INPUTS,
    McpFlowResult,
    RagFlowResult,
    SkillFlowResult,
    Summarized,
    ToolFlowResult,
)
from ditto_tasks.pipelines.models import FlowName, FlowRequest
from ditto_tasks.pipelines.react import ReactRequest, ReactResult, check_actions
from ditto_tasks.settings import Settings

if TYPE_CHECKING:
    from ditto_tasks.client.aio import AsyncDitto, AsyncPending
    from ditto_tasks.client.sync import Ditto, Pending

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
ScopeLike = Scope | Mapping[str, JsonValue]
SCOPED: Final = frozenset({"summarize"})  # needs a scope
EITHER: Final = frozenset({"rag", "tool", "mcp"})  # a scope or a context


@dataclass(frozen=True, slots=True)
class FlowCall(Generic[R]):
    """One call of a flow, ready to be started, and how its result is read."""

    request: FlowRequest
    pipeline: str
    read: Callable[[JsonValue], R]


class SyncFlow(Protocol[R_co]):
    """A flow of the sync client; its result's id is the pipeline's."""

    def __call__(
        self,
        *,
        scope: ScopeLike | None = None,
        pipeline_id: str | None = None,
        timeout_ms: int | None = None,
        **wire: object,
    ) -> Pending[R_co]: ...


class AsyncFlow(Protocol[R_co]):
    """A flow of the async client; its result's id is the pipeline's."""

    def __call__(
        self,
        *,
        scope: ScopeLike | None = None,
        pipeline_id: str | None = None,
        timeout_ms: int | None = None,
        **wire: object,
    ) -> AsyncPending[R_co]: ...


class FlowMethod(Generic[R]):
    """A flow as a method: keyword arguments are its input, which is checked before anything is sent."""

    def __init__(self, flow: FlowName, read: Callable[[JsonValue], R]) -> None:
        self._flow = flow
        self._read = read

    @overload
    def __get__(self, client: Ditto, owner: object = None) -> SyncFlow[R]: ...
    @overload
    def __get__(self, client: AsyncDitto, owner: object = None) -> AsyncFlow[R]: ...
    def __get__(self, client: Ditto | AsyncDitto, owner: object = None) -> Callable[..., object]:
        def method(
            *,
            scope: ScopeLike | None = None,
            pipeline_id: str | None = None,
            timeout_ms: int | None = None,
            **wire: object,
        ) -> object:
            """Start the flow; it fails where it has not ended `timeout_ms` from now."""
            request = flow_request(self._flow, wire, scope, timeout_ms)
            return client.start(FlowCall(request, pipeline_id or str(uuid4()), self._read))

        return method


def flow_request(
    flow: FlowName, wire: Mapping[str, object], scope: ScopeLike | None, timeout_ms: int | None
) -> FlowRequest:
    """The checked request, or NodeInputError naming the field that is wrong."""
    checked = from_wire(INPUTS[flow], node_call(flow, wire, _object).wire)
    given = _object(to_wire(checked))
    if isinstance(checked, ReactRequest):
        check_actions(checked)
        # what is not given may come from the deployment's settings
        given |= {"limits": checked.limits.model_dump(by_alias=True, exclude_unset=True)}
    has_scope, has_context = scope is not None, "context" in given
    if flow in SCOPED and not has_scope:
        raise NodeInputError.invalid_input("/scope", "is required")
    if (has_scope and has_context) or (flow in EITHER and not has_scope and not has_context):
        raise NodeInputError.invalid_input("/scope", "either a scope or a context is required")
    asked = {"flow": flow, "input": given, "scope": scope and to_wire(scope), "timeoutMs": timeout_ms}
    return from_wire(FlowRequest, {name: value for name, value in asked.items() if value is not None})


def with_settings(request: FlowRequest, settings: Settings) -> FlowRequest:
    """The request with the deployment's budgets of react where the caller gave none."""
    if request.flow != "react":
        return request
    runtime = settings.runtime
    budgets = {
        "maxSteps": runtime.max_turns,
        "maxActionCalls": runtime.react.max_action_calls,
        "maxTotalTokens": runtime.react.max_total_tokens,
    }
    known = {name: value for name, value in budgets.items() if value is not None}
    limits = {**known, **_object(request.input.get("limits", {}))}
    return request.model_copy(update={"input": {**request.input, "limits": limits}})


def read_rag(result: JsonValue) -> RagFlowResult:
    """What rag gives."""
    given = _object(result)
    return RagFlowResult(ContextSelection.parse(given["output"]), Context.parse(given["context"]))


def read_skill(result: JsonValue) -> SkillFlowResult:
    """What skill gives."""
    given = _object(result)
    return SkillFlowResult(Context.parse(given["output"]), Context.parse(given["context"]))


def read_tool(result: JsonValue) -> ToolFlowResult:
    """What tool gives."""
    given = _object(result)
    return ToolFlowResult(
        from_wire(ExternalResult, given["output"], error=ServiceError),
        from_wire(Observation, given["observation"], error=ServiceError),
        Context.parse(given["context"]),
    )


def read_mcp(result: JsonValue) -> McpFlowResult:
    """What mcp gives."""
    given = _object(result)
    observed = given.get("observation")
    return McpFlowResult(
        from_wire(ActMcpOutput, given["output"], error=ServiceError).root,
        None if observed is None else from_wire(Observation, observed, error=ServiceError),
        Context.parse(given["context"]),
    )


def read_react(result: JsonValue) -> ReactResult:
    """What react gives."""
    return from_wire(ReactResult, result, error=ServiceError)


def read_summarized(result: JsonValue) -> Summarized:
    """What summarize gives."""
    return from_wire(Summarized, result, error=ServiceError)


class FlowMethods:
    """Flows of both clients. With a scope they work on stored state, with a context on that."""

    rag = FlowMethod[RagFlowResult]("rag", read_rag)
    skill = FlowMethod[SkillFlowResult]("skill", read_skill)
    tool = FlowMethod[ToolFlowResult]("tool", read_tool)
    mcp = FlowMethod[McpFlowResult]("mcp", read_mcp)
    react = FlowMethod[ReactResult]("react", read_react)
    summarize = FlowMethod[Summarized]("summarize", read_summarized)


def _object(value: JsonValue) -> JsonObject:
    return cast(JsonObject, value)
