"""Flows without a server: replayed over what their steps gave, and driven by the runs of steps."""

from dataclasses import replace

import pytest

from ditto_tasks.errors import Cancelled, InteractionError, PipelineError, StateBackendError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import from_wire
from ditto_tasks.pipelines.base import END, Begun, PipelineRecord
from ditto_tasks.pipelines.models import FlowRequest
from ditto_tasks.pipelines.outcomes import raised_error, raised_result
from ditto_tasks.pipelines.plan import Step
from ditto_tasks.pipelines.queued_flows import FLOWS
from ditto_tasks.pipelines.replay import Ended, FlowRun, advance
from ditto_tasks.pipelines.runs import StepRuns

ASKED: JsonObject = {
    "messages": [{"role": "user", "content": "q"}],
    "actions": [{"name": "t", "inputSchema": {}}],
}
ACTED: JsonObject = {"callId": "1", "source": "t", "status": "success", "content": "found"}


def request(flow: str = "react", **more: object) -> FlowRequest:
    return from_wire(FlowRequest, {"flow": flow, "input": {**ASKED, **more}, "deadlineMs": 90_000})


def sampled(*calls: str) -> JsonObject:
    requests: list[JsonValue] = [{"id": call, "name": "t", "arguments": {}} for call in calls]
    output: JsonObject = {"message": {"role": "assistant", "content": "a"}, "finishReason": "stop"}
    if calls:
        output |= {"actionRequests": requests, "finishReason": "action_request"}
    return {"executionId": "e", "node": "n", "status": "success", "output": output}


def upto(results: JsonObject, now_ms: int = 0, **more: object) -> Step | Ended:
    run = FlowRun("p", request(**more), results, opened_ms=0, now_ms=now_ms)
    return advance(FLOWS["react"], run)


def ended(results: JsonObject, now_ms: int = 0, **more: object) -> JsonObject:
    found = upto(results, now_ms, **more)
    assert isinstance(found, Ended), found
    return found.result


def name_of(found: Step | Ended) -> str:
    assert isinstance(found, Step), found
    return found.name


def test_the_next_step_follows_from_the_results() -> None:
    """Each replay comes to the first step without a result, always under the same name."""
    results: JsonObject = {}
    for name, result in (("sample-0", sampled("1")), ("act-1", ACTED), ("sample-2", sampled())):
        assert name_of(upto(results)) == name == name_of(upto(results))
        results[name] = result
    assert ended(results)["stopReason"] == "stop"


def test_the_clock_counts_for_what_was_not_begun() -> None:
    """Time that has passed since takes back no step that has a result; nothing new is begun after it."""
    limits = {"limits": {"timeoutMs": 100}}
    done: JsonObject = {"sample-0": sampled("1"), "act-1": ACTED}
    assert name_of(upto(done, 99, **limits)) == "sample-2"
    late = ended(done, 100, **limits)
    assert (late["stopReason"], len(late["observations"])) == ("timeout", 1)


def test_a_step_ends_with_the_run() -> None:
    """Its deadline is the run's own time, or the pipeline's where that comes first."""
    step = upto({}, limits={"timeoutMs": 100})
    assert isinstance(step, Step)
    assert step.options["deadlineMs"] == 100
    unlimited = upto({})
    assert isinstance(unlimited, Step)
    assert unlimited.options["deadlineMs"] == 90_000


@pytest.mark.parametrize(("code", "reason"), [("TIMEOUT", "timeout"), ("CANCELLED", "cancelled")])
def test_an_action_that_was_not_begun_is_listed(code: str, reason: str) -> None:
    """Cancelled or out of time before it began, it ends the run and remains requested."""
    results: JsonObject = {"sample-0": sampled("1"), "act-1": raised_result(Cancelled(code, "m"))}
    result = ended(results)
    assert (result["stopReason"], result["observations"]) == (reason, [])
    assert [asked["id"] for asked in result["actionRequests"]] == ["1"]


def test_a_refused_action_is_shown_to_the_model() -> None:
    """The node's refusal is a failed observation; broken infrastructure is the end of the flow."""
    refused = raised_result(InteractionError("PERMISSION_DENIED", "no"))
    step = upto({"sample-0": sampled("1"), "act-1": refused})
    assert isinstance(step, Step)
    assert step.wire["messages"][-1]["content"] == "failed: PERMISSION_DENIED: no"
    broken = raised_result(StateBackendError("STATE_BACKEND_UNAVAILABLE", "away"))
    with pytest.raises(StateBackendError):
        upto({"sample-0": sampled("1"), "act-1": broken})


def test_a_delivery_is_named_after_its_step() -> None:
    """A model's own ids repeat from run to run, and a receiver may know a delivery by its id."""
    tells: JsonValue = [{"name": "t", "inputSchema": {}, "targetNode": "INTERACTION.OUTPUT"}]
    told = sampled("1")
    told["output"]["actionRequests"][0]["targetNode"] = "INTERACTION.OUTPUT"
    step = upto({"sample-0": told}, actions=tells)
    assert isinstance(step, Step)
    assert (step.node, step.wire["deliveryId"]) == ("INTERACTION.OUTPUT", "p.act-1")


def test_an_error_is_kept_as_what_it_is() -> None:
    """Type, code, message and details come back from a record; a result is no error."""
    error = raised_error(raised_result(PipelineError("C", "m", {"a": 1})))
    assert isinstance(error, PipelineError)
    assert error.args == ("C", "m", {"a": 1})
    assert raised_error({"status": "success"}) is raised_error(None) is None


class Records:
    """One flow's record, without a server."""

    def __init__(self, results: JsonObject | None = None) -> None:
        self.record = PipelineRecord("p", request(), "running", 90_000, 0, 0, 0, results or {})

    def begin(self, pipeline, step):
        results = self.record.results
        return Begun(self.record.state, END, step in results, results.get(step))

    def beat(self, pipeline):
        """Nobody looks at it here."""

    def finish(self, pipeline, step, result):
        results = {step: result, **self.record.results}
        self.record = replace(self.record, results=results)
        return results[step]

    def settle(self, pipeline, state, error=None):
        if self.record.state == "running":
            self.record = replace(self.record, state=state, error=error)
        return self.record.state

    def announced(self, pipeline):
        """Nobody looks after it here."""

    def load(self, pipeline):
        return self.record


class Answers:
    """A result backend, without a server."""

    def __init__(self):
        self.stored = []

    def store_result(self, task_id, result, state):
        self.stored.append((task_id, result, state))


def made(results=None, send=None):
    records, answers, sent = Records(results), Answers(), []
    runs = StepRuns(records, lambda: answers, send or (lambda _record, step: sent.append(step.name)))
    return runs, records, answers, sent


def test_a_step_that_ended_sends_the_next_one():
    """Its result is recorded first, and is what the task returns."""
    runs, records, _, sent = made()
    assert runs.run_step("p", "sample-0", lambda: sampled("1")) == sampled("1")
    assert (sent, list(records.record.results)) == (["act-1"], ["sample-0"])


def test_a_doubled_delivery_sends_only_what_is_due():
    """A step of long ago is not run, and what comes after it is not sent again."""
    runs, _, _, sent = made({"sample-0": sampled("1"), "act-1": ACTED})
    assert runs.run_step("p", "sample-0", lambda: pytest.fail("ran again")) == sampled("1")
    assert sent == ["sample-2"]


def test_the_end_is_kept_and_stands():
    """The first result is recorded, stored for the caller, and given again to whoever repeats the end."""
    runs, records, answers, sent = made()
    runs.run_step("p", "sample-0", lambda: sampled())
    assert (records.record.state, sent) == ("done", [])
    [(task_id, result, state)] = answers.stored
    assert (task_id, state, result["stopReason"]) == ("p", "SUCCESS", "stop")
    runs.repeat_end(records.record)
    runs.go_on("p")
    assert answers.stored == [(task_id, result, state)] * 2


def test_an_error_of_a_step_goes_to_the_flow():
    """What a step raises is its result: the flow goes on from it."""
    runs, _, _, sent = made({"sample-0": sampled("1")})

    def refuse():
        raise InteractionError("PERMISSION_DENIED", "no")

    runs.run_step("p", "act-1", refuse)
    assert sent == ["sample-2"]


def test_a_flow_whose_step_cannot_be_sent_fails():
    """A typed refusal at publish is what its caller gets."""

    def refuse(record, step):
        raise PipelineError("MESSAGE_TOO_LARGE", "m")

    runs, records, answers, _ = made(send=refuse)
    runs.go_on("p")
    assert records.record.state == "failed"
    assert [str(result) for _, result, _ in answers.stored] == ["MESSAGE_TOO_LARGE: m"]
