"""The react flow as a pure state machine: samples and actions in turn, within budgets.

A state is JSON on the wire, so that the flow's steps can be tasks: each one reads the state, does the
one thing that `next_step` names, and puts the outcome in with `with_sample`, `with_observation` or
`with_receipt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from ditto_tasks.errors import PipelineError
from ditto_tasks.infer.sampling import add_usage, total_tokens
from ditto_tasks.infer.text import content_text
from ditto_tasks.infer.values import (
    ActionDescriptor,
    ActionRequest,
    GenerationConfig,
    Message,
    ModelConfig,
    Sample,
    Usage,
)
from ditto_tasks.interaction.values import Observation, OutputReceipt
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeError, NodeResult, NonEmptyText, WireModel, to_wire

ACT_TOOL: Final = "INTERACTION.ACT.TOOL"
ACT_MCP: Final = "INTERACTION.ACT.MCP"
OUTPUT: Final = "INTERACTION.OUTPUT"
# after these nobody knows what the action did, or nobody wants more of them
_ENDING: Final = frozenset({"cancelled", "timeout", "unknown"})
Positive = Annotated[int, Field(ge=1, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]


class ReactLimits(WireModel):
    """Budgets of one run."""

    max_steps: Positive = 8
    max_action_calls: Positive = 16
    max_total_tokens: Positive | None = None
    timeout_ms: Positive | None = None


class ReactRequest(WireModel):
    """What a run is asked.

    ``on_unknown`` is of samples whose worker died while it asked: fail the run, or ask the model again. It is
    never of actions.
    """

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    actions: tuple[ActionDescriptor, ...] = ()
    model: ModelConfig | None = None
    generation: GenerationConfig | None = None
    limits: ReactLimits = ReactLimits()
    on_unknown: Literal["fail", "repeat"] = "fail"


class ReactState(WireModel):
    """How far a run has come. ``stop_reason`` is set once nothing more is to be begun."""

    messages: tuple[Message, ...]
    samples: tuple[Sample, ...] = ()
    observations: tuple[Observation, ...] = ()
    pending: tuple[ActionRequest, ...] = ()
    action_calls: Count = 0
    stop_reason: NonEmptyText | None = None
    error: NodeError | None = None


class ReactResult(WireModel):
    """What a run gave; ``action_requests`` are those that were not acted on."""

    result: Message | None = None
    samples: tuple[Sample, ...]
    observations: tuple[Observation, ...]
    action_requests: tuple[ActionRequest, ...]
    status: Literal["completed", "partial", "failed"]
    stop_reason: NonEmptyText
    usage: Usage | None = None
    error: NodeError | None = None


@dataclass(frozen=True, slots=True)
class AskModel:
    """The next step is INFER.REASONING.SAMPLE with this input."""

    wire: JsonObject


@dataclass(frozen=True, slots=True)
class Act:
    """The next step is this node with the request's arguments as a call."""

    node: str
    request: ActionRequest


@dataclass(frozen=True, slots=True)
class Finished:
    """There is no next step."""

    result: ReactResult


NextStep: TypeAlias = AskModel | Act | Finished


def begin(request: ReactRequest) -> ReactState:
    """The state of a run that has done nothing yet."""
    return ReactState(messages=request.messages)


def next_step(request: ReactRequest, state: ReactState, *, elapsed_ms: int) -> NextStep:
    """What is to be done now; budgets are checked before anything new is begun."""
    reason = state.stop_reason or _spent(request.limits, state, elapsed_ms)
    if reason is not None:
        return Finished(_result(state, reason))
    if state.pending:
        first = state.pending[0]
        return Act(first.target_node or ACT_TOOL, first)
    return AskModel(_sample_input(request, state))


def action_input(node: str, request: ActionRequest) -> JsonObject:
    """The node's input for a request: its arguments are a tool's, or `{server, name, arguments}` of an
    MCP tool, or `{content}` of an output."""
    given = request.arguments
    if node == ACT_TOOL:
        return {"call": {"id": request.id, "name": request.name, "arguments": given}}
    if node == ACT_MCP:
        call = {"id": request.id, "name": given.get("name"), "arguments": given.get("arguments", {})}
        return {"operation": "invoke", "server": given.get("server"), "call": call}
    if node == OUTPUT:
        message: JsonObject = {"role": "assistant", "content": given.get("content")}
        return {"deliveryId": request.id, "message": message}
    raise PipelineError("UNSUPPORTED_ACTION", "react acts on tools, MCP servers and outputs", {"node": node})


def check_actions(request: ReactRequest) -> None:
    """Refuse actions whose target is none that react acts on; UNSUPPORTED_ACTION."""
    for action in request.actions:
        node = action.target_node or ACT_TOOL
        action_input(node, ActionRequest(id="-", name=action.name, arguments={}))


def _spent(limits: ReactLimits, state: ReactState, elapsed_ms: int) -> str | None:
    if limits.timeout_ms is not None and elapsed_ms >= limits.timeout_ms:
        return "timeout"
    if state.pending:
        return "max_action_calls" if state.action_calls >= limits.max_action_calls else None
    if len(state.samples) >= limits.max_steps:
        return "max_steps"
    return "max_total_tokens" if _spent_tokens(limits, state) else None


def _spent_tokens(limits: ReactLimits, state: ReactState) -> bool:
    return limits.max_total_tokens is not None and _tokens(state) >= limits.max_total_tokens


def _tokens(state: ReactState) -> int:
    return sum(total_tokens(sample.usage) or 0 for sample in state.samples)


def _sample_input(request: ReactRequest, state: ReactState) -> JsonObject:
    wire: JsonObject = {"messages": to_wire(list(state.messages))}
    generation = request.generation
    if request.limits.max_total_tokens is not None:
        left = request.limits.max_total_tokens - _tokens(state)
        generation = _capped(generation or GenerationConfig(), left)
    optional = {"actions": list(request.actions) or None, "model": request.model, "generation": generation}
    return wire | {key: to_wire(value) for key, value in optional.items() if value is not None}


def _capped(generation: GenerationConfig, left: int) -> GenerationConfig:
    wanted = generation.max_tokens
    return generation.model_copy(update={"max_tokens": left if wanted is None else min(left, wanted)})


def with_sample(request: ReactRequest, state: ReactState, answer: NodeResult) -> ReactState:
    """The state after a sample; a failed one ends the run, requests for actions become pending."""
    if answer.status != "success":
        return state.model_copy(update={"stop_reason": _failure_reason(answer.status), "error": answer.error})
    sample = Sample.model_validate(answer.output)
    requests = sample.action_requests or ()
    known = {"samples": (*state.samples, sample), "messages": (*state.messages, _spoken(sample))}
    if request.limits.max_total_tokens is not None and total_tokens(sample.usage) is None:
        error = NodeError(code="USAGE_UNAVAILABLE", message="maxTotalTokens needs usage from every answer")
        return state.model_copy(update=known | {"stop_reason": "error", "error": error})
    if requests:
        return state.model_copy(update=known | {"pending": requests})
    ended = state.model_copy(update=known)
    is_cut = sample.finish_reason == "length" and _spent_tokens(request.limits, ended)
    return ended.model_copy(update={"stop_reason": "max_total_tokens" if is_cut else sample.finish_reason})


def with_failure(state: ReactState, error: NodeError) -> ReactState:
    """The state of a run that can't go on; what it has done so far stays in it."""
    return state.model_copy(update={"stop_reason": "error", "error": error})


def _failure_reason(status: str) -> str:
    return status if status in ("cancelled", "timeout") else "error"


def _spoken(sample: Sample) -> Message:
    """The assistant's message with its requests, as the providers' formats read them back."""
    if not sample.action_requests:
        return sample.message
    asked = to_wire(list(sample.action_requests))
    return sample.message.model_copy(
        update={"metadata": {**(sample.message.metadata or {}), "actionRequests": asked}}
    )


def with_observation(state: ReactState, observation: Observation) -> ReactState:
    """The state after an action; a failed one is shown to the model, an unclear one ends the run."""
    metadata: JsonObject = {
        "callId": observation.call_id,
        "source": observation.source,
        "status": observation.status,
    }
    text = content_text(observation.message.content)
    shown = Message.model_validate({"role": "tool", "content": text, "metadata": metadata})
    return state.model_copy(
        update={
            "observations": (*state.observations, observation),
            "messages": (*state.messages, shown),
            "pending": state.pending[1:],
            "action_calls": state.action_calls + 1,
            "stop_reason": f"action_{observation.status}" if observation.status in _ENDING else None,
        }
    )


def with_receipt(state: ReactState, receipt: OutputReceipt) -> ReactState:
    """The state after an OUTPUT; one that was not accepted ends the run."""
    done = {"pending": state.pending[1:], "action_calls": state.action_calls + 1}
    if receipt.status == "accepted":
        call_id = state.pending[0].id
        shown = said_accepted(call_id)
        return state.model_copy(update=done | {"messages": (*state.messages, shown)})
    error = receipt.error and NodeError(code=receipt.error.code, message=receipt.error.message)
    return state.model_copy(update=done | {"stop_reason": "dependency_failed", "error": error})


def said_accepted(call_id: str) -> Message:
    """What the model is told of an accepted delivery."""
    return Message.model_validate({"role": "tool", "content": "accepted", "metadata": {"callId": call_id}})


def _result(state: ReactState, reason: str) -> ReactResult:
    answered = state.samples[-1].message if state.samples and not state.samples[-1].action_requests else None
    usage = state.samples[0].usage if state.samples else None
    for sample in state.samples[1:]:
        usage = add_usage(usage, sample.usage)
    return ReactResult(
        result=answered,
        samples=state.samples,
        observations=state.observations,
        action_requests=state.pending,
        status=_status(state, reason),
        stop_reason=reason,
        usage=usage,
        error=state.error,
    )


def _status(state: ReactState, reason: str) -> Literal["completed", "partial", "failed"]:
    if state.error is not None or reason == "error":
        return "failed"
    return "completed" if reason == "stop" else "partial"
