"""The flows on the queues, each as a generator of its steps; `replay` says how they run. Pure."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from ditto_tasks.context.models import parse_context
from ditto_tasks.errors import Cancelled, InteractionError, NodeInputError, PipelineError, PublishError
from ditto_tasks.infer.values import Sample
from ditto_tasks.interaction.observing import observe
from ditto_tasks.interaction.values import ExternalError, ExternalResult, OutputReceipt, safe_text
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.models import NodeError, NodeResult, from_wire, to_wire
from ditto_tasks.pipelines.bindings import selection_of
from ditto_tasks.pipelines.flow_models import Summarized, SummarizeInput
from ditto_tasks.pipelines.mappings import OBSERVE, OnFailedObservation, observation_to_context
from ditto_tasks.pipelines.models import FlowName
from ditto_tasks.pipelines.outcomes import output_of
from ditto_tasks.pipelines.plan import Step
from ditto_tasks.pipelines.react import (
    ACT_MCP,
    ACT_TOOL,
    OUTPUT,
    Act,
    AskModel,
    Finished,
    ReactRequest,
    ReactState,
    action_input,
    begin,
    next_step,
    with_failure,
    with_observation,
    with_receipt,
    with_sample,
)
from ditto_tasks.pipelines.replay import Flow, FlowRun, FlowSteps
from ditto_tasks.pipelines.summarizing import accept_summary, sample_input, summarizable, update_input
from ditto_tasks.publishing import MAX_MESSAGE_BYTES

SAMPLE: Final = "INFER.REASONING.SAMPLE"
ENVELOPE_BYTES: Final = 4_096  # at most, of what a message carries beside a step's input
FlowAnswer: TypeAlias = Generator[Step, JsonValue, JsonValue]


def rag(run: FlowRun) -> FlowSteps:
    """SELECT."""
    strategy = {"kind": "rag", **_present(run.wire, "corpus", "options")}
    wire = {**run.target, "purpose": "infer", "strategy": strategy}
    wire |= _present(run.wire, "query", "limit", "maxTokens")
    selection = selection_of((yield Step("select", "CONTEXT.SELECT", wire, {})))
    return {"output": selection, "context": selection["context"]}


def skill(run: FlowRun) -> FlowSteps:
    """LOAD [, UPDATE]."""
    loaded = _object((yield Step("load", "CONTEXT.LOAD", {"sources": run.wire["sources"]}, {})))
    if not run.target:
        return {"output": loaded, "context": loaded}
    updated = yield _update(run, {"add": loaded["items"]})
    return {"output": loaded, "context": updated}


def tool(run: FlowRun) -> FlowSteps:
    """ACT.TOOL, OBSERVE, UPDATE."""
    call = _object(run.wire["call"])
    output = yield Step("act", ACT_TOOL, {"call": call}, {})
    return {"output": output, **(yield from _observed(run, output, call))}


def mcp(run: FlowRun) -> FlowSteps:
    """ACT.MCP [, OBSERVE, UPDATE]; after a discovery the context is only read."""
    request = _object(run.wire["request"])
    output = _object((yield Step("act", ACT_MCP, request, {})))
    if output["operation"] == "discover":
        context = run.wire.get("context") or (yield Step("load", "CONTEXT.LOAD", run.target, {}))
        return {"output": output, "context": context}
    return {"output": output, **(yield from _observed(run, output["result"], _object(request["call"])))}


def _observed(run: FlowRun, result: JsonValue, call: JsonObject) -> FlowSteps:
    observation = _object((yield Step("observe", OBSERVE, {"result": result}, {})))
    if observation["callId"] != call["id"]:
        raise PipelineError("CALL_MISMATCH", "the observation is not of the call that was made")
    policy = cast(OnFailedObservation, run.wire["onFailedObservation"])
    item = observation_to_context(observation, on_failed_observation=policy)
    context = yield _update(run, {"ingress": [item]})
    return {"observation": observation, "context": context}


def _update(run: FlowRun, change: JsonObject) -> Step:
    options: JsonObject = {"reply": "context"} if run.request.scope is not None else {}
    return Step("update", "CONTEXT.UPDATE", {**run.target, **change}, options)


def react(run: FlowRun) -> FlowSteps:
    """SAMPLE and declared actions in turn; the clock counts only for what was not begun yet."""
    asked = from_wire(ReactRequest, run.wire)
    state = begin(asked)
    for position in count():
        elapsed_ms = run.now_ms - run.opened_ms if position >= len(run.results) else 0
        try:
            match next_step(asked, state, elapsed_ms=elapsed_ms):
                case Finished(result):
                    return _object(to_wire(result))
                case AskModel(wire):
                    options = {**_in_time(asked, run), "onUnknown": asked.on_unknown}
                    answer = yield from _sent(run, Step(f"sample-{position}", SAMPLE, wire, options))
                    state = with_sample(asked, state, from_wire(NodeResult, answer))
                case Act() as act:
                    state = yield from _acted(state, act, f"act-{position}", run, _in_time(asked, run))
        except PublishError as refused:  # no step comes after it, but what was done is the caller's
            state = with_failure(state, NodeError(code=refused.code, message=refused.message))
    raise AssertionError("the positions do not end")


def _sent(run: FlowRun, step: Step) -> FlowAnswer:
    """A step's result; one that no message can hold raises MESSAGE_TOO_LARGE and is not sent."""
    if step.name not in run.results:
        size = len(encode([step.wire, step.options])) + ENVELOPE_BYTES
        if size > MAX_MESSAGE_BYTES:
            message = f"the next step needs {size} bytes, over {MAX_MESSAGE_BYTES}"
            raise PublishError("MESSAGE_TOO_LARGE", message)
    return (yield step)


def _acted(
    state: ReactState, act: Act, name: str, run: FlowRun, options: JsonObject
) -> Generator[Step, JsonValue, ReactState]:
    wire = action_input(act.node, act.request)
    if act.node == OUTPUT:
        wire["deliveryId"] = run.id_of(name)  # a model's own ids repeat
    try:
        outcome = yield from _sent(run, Step(name, act.node, wire, options))
    except (InteractionError, NodeInputError) as refused:  # the model is told, and may do without
        return with_observation(state, observe(_refused(act, refused)))
    except Cancelled as stopped:  # before it began
        reason = "timeout" if stopped.code == "TIMEOUT" else "cancelled"
        return state.model_copy(update={"stop_reason": reason})
    if act.node == OUTPUT:
        return with_receipt(state, from_wire(OutputReceipt, outcome))
    result = _object(outcome)["result"] if act.node == ACT_MCP else outcome
    return with_observation(state, observe(from_wire(ExternalResult, result)))


def _refused(act: Act, refused: InteractionError | NodeInputError) -> ExternalResult:
    error = ExternalError(code=refused.code, message=safe_text(refused.message))
    return ExternalResult(call_id=act.request.id, source=act.request.name, status="failed", error=error)


def _in_time(asked: ReactRequest, run: FlowRun) -> JsonObject:
    """A step ends with the run's own time, or with the pipeline's."""
    ends = [run.request.deadline_ms]
    if asked.limits.timeout_ms is not None:
        ends.append(run.opened_ms + asked.limits.timeout_ms)
    known = [end for end in ends if end is not None]
    return {"deadlineMs": min(known)} if known else {}


def summarize(run: FlowRun) -> FlowSteps:
    """LOAD, SELECT, SAMPLE, validation, one UPDATE of the version that was read, COMPRESS.

    What was selected is shown in the order of the state, which a selection does not keep.
    """
    asked = from_wire(SummarizeInput, run.wire)
    receipt: JsonObject = {"reply": "receipt"}
    read = _object((yield Step("load", "CONTEXT.LOAD", run.target, receipt)))
    pin: JsonObject = {**run.target, "expectedVersion": read["version"]}
    selection = selection_of((yield Step("select", "CONTEXT.SELECT", {**pin, "purpose": "infer"}, {})))
    selected = frozenset(cast("list[str]", selection["selectedItemIds"]))
    items = summarizable(
        [item for item in parse_context(read["context"]).items if item.id in selected], asked.ids
    )
    question = {**sample_input(items, max_tokens=asked.max_tokens), "model": to_wire(asked.model)}
    sample = from_wire(Sample, output_of((yield Step("sample", SAMPLE, question, {}))))
    accepted = accept_summary(sample, items, max_tokens=asked.max_tokens)
    operation = run.id_of("update")
    change = update_input(accepted, sample, items, operation_id=operation, model=asked.model.model)
    yield Step("update", "CONTEXT.UPDATE", {**pin, **change}, receipt)
    compressed = _object((yield Step("compress", "CONTEXT.COMPRESS", run.target, receipt)))
    done = Summarized(
        summary_id=f"summary:{operation}",
        removed_ids=tuple(item.id for item in items),
        version=cast(str, compressed["version"]),
        usage=sample.usage,
    )
    return _object(to_wire(done))


def _present(wire: JsonObject, *names: str) -> JsonObject:
    return {name: wire[name] for name in names if name in wire}


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise PipelineError("INVALID_UPSTREAM", "a step's result does not have the expected shape")
    return value


FLOWS: Final[Mapping[FlowName, Flow]] = MappingProxyType(
    {"rag": rag, "skill": skill, "tool": tool, "mcp": mcp, "react": react, "summarize": summarize}
)
