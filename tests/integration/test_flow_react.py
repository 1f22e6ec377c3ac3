"""The react flow on the queues with real workers: its course, every reason to stop, and deaths on the way."""

import asyncio
from uuid import uuid4

import pytest
import redis
from support.flows import flow_deployment, says, wants
from support.polling import eventually
from support.provider_server import hang

from ditto_tasks.client.aio import AsyncDitto
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import Cancelled, NodeInputError, PipelineError
from ditto_tasks.pipelines.canvas import flow_task
from ditto_tasks.pipelines.plan import Step

WAIT_S = 60.0
ASKED = [{"role": "user", "content": "q"}]
ACTIONS = [
    {"name": "note", "inputSchema": {"type": "object"}},
    {"name": "upper", "inputSchema": {"type": "object"}},
    {"name": "tell", "inputSchema": {"type": "object"}, "targetNode": "INTERACTION.OUTPUT"},
]


@pytest.fixture(scope="module")
def running():
    with flow_deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def broker(running):
    with redis.Redis.from_url(running.server.redis_url(0)) as client:
        yield client


@pytest.fixture(scope="module")
def client(running):
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def model(running):
    """The scripted model, with nothing asked yet."""
    running.provider.requests.clear()
    running.provider.client_closed.clear()
    return running.provider


@pytest.fixture
def key():
    return f"k{uuid4().hex}"


def react(client, **more):
    return client.react(messages=ASKED, actions=ACTIONS, **more)


def test_two_tools_and_an_answer(client, model, broker, key):
    """Samples and actions run in turn, the model sees each outcome, and the result tells of all."""
    calls = wants(("1", "note", {"key": key}), ("2", "upper", {"text": "hi"}))
    model.then(calls, wants(("1", "tell", {"content": "ok"}), ("3", "denied", {})), says("do", "ne"))
    pending = client.react(messages=ASKED, actions=[*ACTIONS, {"name": "denied", "inputSchema": {}}])
    result = pending.get(WAIT_S)
    assert (result.status, result.stop_reason) == ("completed", "stop")
    assert (result.result.content, len(result.samples)) == ("done", 3)
    assert [seen.status for seen in result.observations] == ["success", "success", "failed"]
    assert result.usage.total_tokens == 9
    shown = [said["content"] for said in model.requests[-1].json["messages"] if said["role"] == "tool"]
    assert shown[:3] == ['{"times":1}', "HI", "accepted"]
    assert "PERMISSION_DENIED" in shown[3]
    steps = [event.data["step"] for event in pending.events() if event.data.get("status") == "started"]
    names = ["sample-0", "act-1", "act-2", "sample-3", "act-4", "act-5", "sample-6"]
    assert steps == names


def test_steps_that_are_delivered_again_have_no_second_effect(client, model, broker, key):
    """After the end each step is published once more: no model is asked, no tool acts, the result stands."""
    model.then(wants(("1", "note", {"key": key})), says("done"))
    pending = react(client)
    result = pending.get(WAIT_S)
    wires = {"sample-0": "INFER.REASONING.SAMPLE", "act-1": "INTERACTION.ACT.TOOL"}
    for name, node in wires.items():
        flow_task(client.app, Step(name, node, {}, {}), pending.id, None).apply_async()
        assert client.result(f"{pending.id}.{name}").get(WAIT_S)
    assert pending.get(WAIT_S) == result
    assert (len(model.requests), int(broker.get(f"test:{key}"))) == (2, 1)


def test_a_doubled_step_in_the_middle_goes_on_once(client, model, broker, key):
    """While the first sample is asked, a second delivery waits for it; every later step runs once."""
    model.then(wants(("1", "note", {"key": key}), tokens=3), says("d", "o", "n", "e", pause_s=0.3))
    pending = react(client)
    eventually(lambda: len(model.requests) == 2, WAIT_S)
    record = client.app.records.load(pending.id)
    for _ in range(3):
        client.app.runs.go_on(record.pipeline)
    assert pending.get(WAIT_S).result.content == "done"
    assert (len(model.requests), int(broker.get(f"test:{key}"))) == (2, 1)


def noting(key, **more):
    return ("1", "note", {"key": key, **more})


BUDGETS = [
    ({"maxSteps": 1}, [()], "max_steps", 1),
    ({"maxActionCalls": 1}, [(), ()], "max_action_calls", 1),
    ({"maxTotalTokens": 3}, [()], "max_total_tokens", 1),
]


@pytest.mark.parametrize(("limits", "calls", "reason", "acted"), BUDGETS)
def test_a_spent_budget_ends_the_run(client, model, broker, key, limits, calls, reason, acted):
    """The reason names the budget, what was asked for and not done is listed, and nothing more is begun."""
    model.then(wants(*(noting(key) for _ in calls)))
    result = react(client, limits=limits).get(WAIT_S)
    assert (result.status, result.stop_reason) == ("partial", reason)
    assert len(result.action_requests) == len(calls) - acted
    assert (len(model.requests), int(broker.get(f"test:{key}"))) == (1, acted)


def test_the_time_of_a_run_ends_its_sample(client, model):
    """A model that does not answer is left at timeoutMs, and its connection is closed."""
    model.then(hang())
    result = react(client, limits={"timeoutMs": 1_000}).get(WAIT_S)
    assert (result.status, result.stop_reason, result.samples) == ("failed", "timeout", ())
    assert model.client_closed.wait(WAIT_S)


def test_the_time_of_a_run_ends_its_action(client, model, broker, key):
    """A tool that hangs is left at timeoutMs, and neither model nor tools are asked after that."""
    model.then(wants(noting(key), noting(key, hang=True), noting(key)))
    result = react(client, limits={"timeoutMs": 3_000}).get(WAIT_S)
    assert (result.status, result.stop_reason) == ("partial", "action_timeout")
    assert int(broker.get(f"test:{key}")) == 2


@pytest.mark.parametrize("status", ["cancelled", "timeout", "unknown"])
def test_an_unclear_action_stops_new_ones(client, model, broker, key, status):
    """After it neither the next action nor the model is asked."""
    model.then(wants(noting(key, ends=status), noting(key)))
    result = react(client).get(WAIT_S)
    assert (result.status, result.stop_reason) == ("partial", f"action_{status}")
    assert len(result.action_requests) == 1
    assert (len(model.requests), int(broker.get(f"test:{key}"))) == (1, 1)


def test_a_run_that_outgrows_a_message_ends_with_what_it_has(client, model, key):
    """Past 4 MiB nothing more is asked; the error names it, and samples and observations are the caller's."""
    shout = wants(("1", "upper", {"text": "x" * 900_000}))
    model.then(shout)
    result = react(client, limits={"maxSteps": 5}).get(WAIT_S)
    assert (result.status, result.stop_reason, result.error.code) == ("failed", "error", "MESSAGE_TOO_LARGE")
    assert (len(result.samples), len(result.observations), len(model.requests)) == (3, 3, 3)
    assert result.usage.total_tokens == 9
    model.then(wants(("1", "upper", {"text": "x" * 5_000_000})))
    result = react(client).get(WAIT_S)
    assert (result.stop_reason, result.error.code) == ("error", "MESSAGE_TOO_LARGE")
    assert [asked.name for asked in result.action_requests] == ["upper"]


@pytest.mark.parametrize("content", ["no", "maybe"])
def test_an_output_that_was_not_accepted_ends_the_run(client, model, key, content):
    """Rejected or unknown, it is a failed dependency with the sink's error."""
    model.then(wants(("1", "tell", {"content": content}), noting(key)))
    result = react(client).get(WAIT_S)
    assert (result.status, result.stop_reason) == ("failed", "dependency_failed")
    assert result.error.code == "FUSSY"


def test_a_cancelled_run_begins_nothing_new(client, model, broker, key):
    """The caller gets Cancelled at once, and the model's request is closed."""
    model.then(hang())
    pending = react(client)
    eventually(lambda: model.requests, WAIT_S)
    pending.cancel()
    with pytest.raises(Cancelled):
        pending.get(WAIT_S)
    assert model.client_closed.wait(WAIT_S)
    assert broker.get(f"test:{key}") is None


def test_budgets_come_from_the_settings_where_none_are_given(client, model, key):
    """runtime.maxTurns bounds the samples of a run that names no maxSteps."""
    model.then(wants(noting(key)))
    assert len(react(client).get(WAIT_S).samples) == client.app.settings.runtime.max_turns == 5


def test_bad_input_is_refused_before_anything_is_sent(client, model):
    """No messages, or an action that react does not act on."""
    with pytest.raises(NodeInputError, match="messages"):
        client.react(messages=[])
    with pytest.raises(PipelineError, match="UNSUPPORTED_ACTION"):
        client.react(messages=ASKED, actions=[{"name": "x", "inputSchema": {}, "targetNode": "MEMORY.GET"}])
    assert model.requests == []


def test_the_async_client_has_the_same_flow(running, model, key):
    """It is awaited, and gives the same type."""
    model.then(wants(noting(key)), says("done"))

    async def ask():
        async with AsyncDitto(running.settings) as opened:
            return await opened.react(messages=ASKED, actions=ACTIONS).get(WAIT_S)

    result = asyncio.run(ask())
    assert (result.stop_reason, result.result.content) == ("stop", "done")


@pytest.mark.timeout(300)  # as below
@pytest.mark.parametrize(
    ("on_unknown", "ends", "asked"),
    [("fail", ("failed", "error", "OUTCOME_UNKNOWN"), 1), ("repeat", ("completed", "stop", None), 2)],
)
def test_a_worker_that_is_killed_within_a_sample(on_unknown, ends, asked):
    """While the model holds its request: the run ends as unknown, or the model is asked once more."""
    with flow_deployment() as deployed, Ditto(deployed.settings) as own:
        deployed.provider.then(hang(b"data: "), says("done"))
        with deployed.worker("mortal") as mortal:
            pending = own.react(messages=ASKED, onUnknown=on_unknown)
            eventually(lambda: deployed.provider.requests, WAIT_S)
            mortal.kill()
        with deployed.worker("next"):
            result = pending.get(120)
        assert (result.status, result.stop_reason, result.error and result.error.code) == ends
        assert len(deployed.provider.requests) == asked


@pytest.mark.timeout(300)  # two cold starts, and the quiet time after which a step counts as lost
def test_a_killed_worker_leaves_a_run_that_ends(key):
    """Killed within an action: the next worker learns that nobody knows; what was settled ran once."""
    with (
        flow_deployment() as deployed,
        Ditto(deployed.settings) as own,
        redis.Redis.from_url(deployed.server.redis_url(0)) as broker,
    ):
        deployed.provider.then(wants(("0", "upper", {"text": "a"}), noting(key, hang=True)), says("no"))
        with deployed.worker("mortal") as mortal:
            pending = own.react(messages=ASKED, actions=ACTIONS)
            eventually(lambda: broker.get(f"test:{key}"), WAIT_S)
            mortal.kill()
        with deployed.worker("next"):
            result = pending.get(120)
        assert (result.status, result.stop_reason) == ("partial", "action_unknown")
        assert [seen.status for seen in result.observations] == ["success", "unknown"]
        assert (len(deployed.provider.requests), int(broker.get(f"test:{key}"))) == (1, 1)
