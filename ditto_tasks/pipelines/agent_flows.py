"""Flows of acting agents in process: a tool's or an MCP server's answer into a context, react, summarize."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ditto_tasks.context import Context, ContextNodes
from ditto_tasks.errors import InferError, InteractionError, PipelineError
from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.values import Sample
from ditto_tasks.interaction.base import InteractionCall
from ditto_tasks.interaction.models import Discovery, Invocation
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.values import ExternalError, ExternalResult, Observation, OutputReceipt
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import CancelToken, to_wire
from ditto_tasks.pipelines.flow_models import McpFlowResult, ToolFlowResult
from ditto_tasks.pipelines.mappings import OnFailedObservation, observation_to_context
from ditto_tasks.pipelines.react import (
    Act,
    AskModel,
    Finished,
    ReactRequest,
    ReactResult,
    ReactState,
    action_input,
    begin,
    next_step,
    with_observation,
    with_receipt,
    with_sample,
)
from ditto_tasks.pipelines.summarizing import accept_summary, sample_input, summarizable, update_input


def tool_flow(
    nodes: ContextNodes,
    interaction: InteractionNodes,
    context: Context,
    call: JsonObject,
    *,
    on_failed_observation: OnFailedObservation = "raise",
) -> ToolFlowResult:
    """ACT.TOOL, OBSERVE, UPDATE."""
    output = interaction.act_tool({"call": call})
    observation = _observed(interaction, output, call.get("id"))
    return ToolFlowResult(output, observation, _added(nodes, context, observation, on_failed_observation))


def mcp_flow(
    nodes: ContextNodes,
    interaction: InteractionNodes,
    context: Context,
    request: JsonObject,
    *,
    on_failed_observation: OnFailedObservation = "raise",
) -> McpFlowResult:
    """ACT.MCP, and for an invocation OBSERVE and UPDATE."""
    output = interaction.act_mcp(request)
    if isinstance(output, Discovery):
        return McpFlowResult(output, None, context)
    call = request.get("call")
    observation = _observed(interaction, output.result, call.get("id") if isinstance(call, dict) else None)
    return McpFlowResult(output, observation, _added(nodes, context, observation, on_failed_observation))


def _observed(interaction: InteractionNodes, result: ExternalResult, call_id: JsonValue) -> Observation:
    observation = interaction.observe({"result": result})
    if observation.call_id != call_id:
        raise PipelineError("CALL_MISMATCH", "the observation is not of the call that was made")
    return observation


def _added(
    nodes: ContextNodes, context: Context, observation: Observation, on_failed: OnFailedObservation
) -> Context:
    wire = to_wire(observation)
    item = observation_to_context(wire if isinstance(wire, dict) else {}, on_failed_observation=on_failed)
    return nodes.update(context=context, ingress=[item])


def react_flow(
    infer: InferNodes,
    interaction: InteractionNodes,
    request: ReactRequest,
    *,
    token: CancelToken | None = None,
    now: Callable[[], float] = time.monotonic,
) -> ReactResult:
    """Samples and declared actions in turn, until an answer, a budget's end or an unclear action."""
    stop, begun_s, state = token or CancelToken(), now(), begin(request)
    while True:
        step = next_step(request, state, elapsed_ms=int((now() - begun_s) * 1000))
        match step:
            case Finished():
                return step.result
            case AskModel():
                state = with_sample(request, state, infer.sample(step.wire, call=InferCall(token=stop)))
            case Act():
                state = _acted(interaction, state, step, InteractionCall(token=stop))


def _acted(interaction: InteractionNodes, state: ReactState, step: Act, call: InteractionCall) -> ReactState:
    wire = action_input(step.node, step.request)
    try:
        outcome = interaction.execute(step.node, wire, call=call)
    except InteractionError as refused:  # the model is told, and may do without
        error = ExternalError(code=refused.code, message=refused.message)
        name = step.request.name
        outcome = ExternalResult(call_id=step.request.id, source=name, status="failed", error=error)
    if isinstance(outcome, OutputReceipt):
        return with_receipt(state, outcome)
    if isinstance(outcome, Invocation):
        outcome = outcome.result
    return with_observation(state, interaction.observe({"result": outcome}))


def summarize_flow(
    nodes: ContextNodes,
    infer: InferNodes,
    context: Context,
    *,
    operation_id: str,
    max_tokens: int,
    model: str,
    ids: Sequence[str] | None = None,
) -> Context:
    """SAMPLE, validation, one UPDATE, COMPRESS; raises and changes nothing when the summary is no good."""
    items = summarizable(context.items, ids)
    asked = sample_input(items, max_tokens=max_tokens)
    answer = infer.sample({**asked, "model": {"model": model}})
    if answer.error is not None:
        raise InferError(answer.error.code, answer.error.message)
    sample = Sample.model_validate(answer.output)
    accepted = accept_summary(sample, items, max_tokens=max_tokens)
    change = update_input(accepted, sample, items, operation_id=operation_id, model=model)
    return nodes.compress(context=nodes.update({**change, "context": context}))
