"""The react flow's state machine: every step, every budget, every reason to stop."""

import pytest

from ditto_tasks.infer.values import ActionRequest, Message, Sample, Usage
from ditto_tasks.interaction.observing import observe
from ditto_tasks.interaction.values import ExternalError, ExternalResult, OutputReceipt
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import NodeError, NodeResult, from_wire, to_wire
from ditto_tasks.pipelines.react import (
    Act,
    AskModel,
    Finished,
    ReactRequest,
    ReactResult,
    ReactState,
    begin,
    next_step,
    with_observation,
    with_receipt,
    with_sample,
)

ACTIONS = [{"name": "search", "inputSchema": {}}, {"name": "say", "inputSchema": {}, "targetNode": "X.OUT"}]


def request(**limits: object) -> ReactRequest:
    given = {"messages": [{"role": "user", "content": "q"}], "actions": ACTIONS, "limits": limits}
    return from_wire(ReactRequest, given)


def sampled(
    text: str = "", *calls: str, finish: str = "stop", tokens: int | None = None, **fields: object
) -> NodeResult:
    requests = [ActionRequest(id=call, name="search", arguments={}, **fields) for call in calls]
    sample = Sample.model_validate(
        {
            "message": Message(role="assistant", content=text),
            "action_requests": requests or None,
            "finish_reason": "action_request" if calls else finish,
            "usage": None if tokens is None else Usage(total_tokens=tokens),
        }
    )
    return NodeResult(execution_id="e", node="n", status="success", output=to_wire(sample))


def acted(call_id: str, status: str = "success") -> object:
    fields: JsonObject = {"callId": call_id, "source": "search", "status": status}
    error: JsonObject = {"error": {"code": "C", "message": "m"}}
    return observe(
        ExternalResult.model_validate(fields | ({"content": "found"} if status == "success" else error))
    )


def finished(asked: ReactRequest, state: ReactState, elapsed_ms: int = 0) -> ReactResult:
    step = next_step(asked, state, elapsed_ms=elapsed_ms)
    assert isinstance(step, Finished), step
    return step.result


def test_answer_without_actions() -> None:
    """A first answer without requests completes the run."""
    asked = request()
    step = next_step(asked, begin(asked), elapsed_ms=0)
    assert isinstance(step, AskModel)
    assert step.wire == {"messages": [{"role": "user", "content": "q"}], "actions": ACTIONS}
    result = finished(asked, with_sample(asked, begin(asked), sampled("done", tokens=3)))
    assert (result.status, result.stop_reason, result.usage) == ("completed", "stop", Usage(total_tokens=3))
    assert result.result == Message(role="assistant", content="done")


def test_actions_one_after_another() -> None:
    """Requested actions run in their order, and the model then sees each observation under its call."""
    asked = request()
    state = with_sample(asked, begin(asked), sampled("", "a", "b"))
    first = next_step(asked, state, elapsed_ms=0)
    assert isinstance(first, Act)
    assert (first.node, first.request.id) == ("INTERACTION.ACT.TOOL", "a")
    state = with_observation(state, acted("a"))
    state = with_observation(state, acted("b", "failed"))
    step = next_step(asked, state, elapsed_ms=0)
    assert isinstance(step, AskModel)
    _, spoken, seen, failed = step.wire["messages"]
    assert [item["id"] for item in spoken["metadata"]["actionRequests"]] == ["a", "b"]
    assert (seen["role"], seen["content"], seen["metadata"]["callId"]) == ("tool", "found", "a")
    assert (failed["content"], failed["metadata"]["status"]) == ("failed: C: m", "failed")
    result = finished(asked, with_sample(asked, state, sampled("done")))
    assert (result.status, len(result.samples), len(result.observations)) == ("completed", 2, 2)


def test_target_node() -> None:
    """An action goes to the node of its descriptor."""
    asked = request()
    state = with_sample(asked, begin(asked), sampled("", "a", target_node="INTERACTION.OUTPUT"))
    step = next_step(asked, state, elapsed_ms=0)
    assert isinstance(step, Act)
    assert step.node == "INTERACTION.OUTPUT"


@pytest.mark.parametrize("status", ["cancelled", "timeout", "unknown"])
def test_unclear_action_stops(status: str) -> None:
    """After an action that was cancelled, timed out or is unknown, no further one begins."""
    asked = request()
    state = with_observation(with_sample(asked, begin(asked), sampled("", "a", "b")), acted("a", status))
    result = finished(asked, state)
    assert (result.status, result.stop_reason) == ("partial", f"action_{status}")
    assert [item.id for item in result.action_requests] == ["b"]
    assert result.result is None


def test_step_budget() -> None:
    """No sample is asked for beyond maxSteps; there are 8 by default."""
    asked, state = request(maxSteps=1), begin(request())
    state = with_observation(with_sample(asked, state, sampled("", "a")), acted("a"))
    assert finished(asked, state).stop_reason == "max_steps"
    assert isinstance(next_step(request(), state, elapsed_ms=0), AskModel)
    assert (request().limits.max_steps, request().limits.max_action_calls) == (8, 16)


def test_action_budget() -> None:
    """No action begins beyond maxActionCalls; what was asked for is reported as unresolved."""
    asked = request(maxActionCalls=1)
    state = with_observation(with_sample(asked, begin(asked), sampled("", "a", "b")), acted("a"))
    result = finished(asked, state)
    assert (result.status, result.stop_reason) == ("partial", "max_action_calls")
    assert [item.id for item in result.action_requests] == ["b"]


def test_token_budget() -> None:
    """What is left of the tokens caps the next sample; spent tokens end the run."""
    asked = request(maxTotalTokens=10)
    state = with_observation(with_sample(asked, begin(asked), sampled("", "a", tokens=4)), acted("a"))
    step = next_step(asked, state, elapsed_ms=0)
    assert isinstance(step, AskModel)
    assert step.wire["generation"] == {"maxTokens": 6}
    cut = with_sample(asked, state, sampled("cut", finish="length", tokens=6))
    assert finished(asked, cut).stop_reason == "max_total_tokens"
    spent = with_observation(with_sample(asked, state, sampled("", "b", tokens=6)), acted("b"))
    assert finished(asked, spent).stop_reason == "max_total_tokens"


def test_token_budget_needs_usage() -> None:
    """With a token budget an answer without usage ends the run as failed."""
    asked = request(maxTotalTokens=10)
    result = finished(asked, with_sample(asked, begin(asked), sampled("x")))
    assert (result.status, result.stop_reason, result.error and result.error.code) == (
        "failed",
        "error",
        "USAGE_UNAVAILABLE",
    )


def test_time_budget() -> None:
    """Past timeoutMs nothing new begins, neither a sample nor an action."""
    asked = request(timeoutMs=100)
    assert finished(asked, begin(asked), elapsed_ms=100).stop_reason == "timeout"
    state = with_sample(asked, begin(asked), sampled("", "a"))
    assert isinstance(next_step(asked, state, elapsed_ms=99), Act)
    assert finished(asked, state, elapsed_ms=100).stop_reason == "timeout"


@pytest.mark.parametrize(
    ("status", "reason"), [("failed", "error"), ("timeout", "timeout"), ("cancelled", "cancelled")]
)
def test_failed_sample(status: str, reason: str) -> None:
    """A sample that fails ends the run with its error."""
    asked, error = request(), NodeError(code="MODEL_ERROR", message="m")
    answer = NodeResult.model_validate({"execution_id": "e", "node": "n", "status": status, "error": error})
    result = finished(asked, with_sample(asked, begin(asked), answer))
    assert (result.status, result.stop_reason, result.error) == ("failed", reason, error)


@pytest.mark.parametrize("status", ["rejected", "unknown"])
def test_output_that_is_not_accepted(status: str) -> None:
    """A delivery that is rejected or unknown stops the run as dependency_failed."""
    asked = request()
    state = with_sample(asked, begin(asked), sampled("", "a", target_node="INTERACTION.OUTPUT"))
    error = ExternalError(code="FULL", message="full")
    receipt = OutputReceipt.model_validate({"delivery_id": "a", "status": status, "error": error})
    result = finished(asked, with_receipt(state, receipt))
    assert (result.stop_reason, result.error and result.error.code) == ("dependency_failed", "FULL")


def test_accepted_output_goes_on() -> None:
    """An accepted delivery is told to the model, which goes on."""
    asked = request()
    state = with_sample(asked, begin(asked), sampled("", "a", target_node="INTERACTION.OUTPUT"))
    state = with_receipt(state, OutputReceipt(delivery_id="a", status="accepted"))
    step = next_step(asked, state, elapsed_ms=0)
    assert isinstance(step, AskModel)
    assert step.wire["messages"][-1]["metadata"] == {"callId": "a"}


def test_state_travels_as_json() -> None:
    """A state comes back from its wire form as it was."""
    asked = request()
    state = with_observation(with_sample(asked, begin(asked), sampled("", "a", "b", tokens=4)), acted("a"))
    assert from_wire(ReactState, to_wire(state)) == state
