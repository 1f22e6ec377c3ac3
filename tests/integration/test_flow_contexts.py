"""The flows that work on a context, on the queues with real workers: rag, skill, tool, mcp, summarize."""

import json
from uuid import uuid4

import pytest
import redis
from support.flows import flow_deployment, says
from support.polling import eventually

from ditto_tasks.canonical import scope_key
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import ContextError, DittoError, InferError, NodeInputError, PipelineError
from ditto_tasks.pipelines.canvas import flow_task
from ditto_tasks.pipelines.plan import Step

WAIT_S = 60.0
CALL = {"id": "c1", "name": "upper", "arguments": {"text": "hi"}}
OLD = [
    {"id": "a", "content": "the sky is blue"},
    {"id": "b", "content": "grass is green"},
    {"id": "goal", "content": "name colors", "metadata": {"currentGoal": True}},
    {"id": "call", "content": "asked", "metadata": {"callId": "x", "role": "assistant"}},
    {"id": "answer", "content": "told", "metadata": {"callId": "x", "role": "tool"}},
]


@pytest.fixture(scope="module")
def running():
    with flow_deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def states(running):
    with redis.Redis.from_url(running.server.redis_url(2)) as client:
        yield client


@pytest.fixture(scope="module")
def client(running):
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def model(running):
    """The scripted model, with nothing asked yet."""
    running.provider.requests.clear()
    return running.provider


@pytest.fixture
def scope(client):
    """A scope with two items that may be summarised, a goal, and a call with its answer."""
    made = {"sessionId": f"acme:{uuid4()}"}
    client.context.load(scope=made, sources=OLD).get(WAIT_S)
    return made


def stored(states, scope):
    return states.get(f"ditto:context:scope:{scope_key(scope).removeprefix('scope:')}")


def ids(client, scope):
    return [item.id for item in client.context.load(scope=scope).get(WAIT_S).items]


def summary(text="colors of things", sources=("a", "b")):
    return json.dumps({"summary": text, "sources": list(sources)})


def summarize(client, scope, **more):
    return client.summarize(scope=scope, max_tokens=40, model={"model": "m"}, **more)


def test_rag_selects_for_inference(client, scope):
    """The selection comes back, and its context; the state stays as it was."""
    result = client.rag(scope=scope, query="what is green?", limit=3).get(WAIT_S)
    assert result.output.purpose == "infer"
    assert result.output.selected_item_ids == ("answer", "call", "goal")
    assert result.context == result.output.context


def test_skill_loads_and_adds(client, scope):
    """What was loaded is added to the state; without scope or context it is the context."""
    added = client.skill(scope=scope, sources=[{"id": "s", "content": "skill"}]).get(WAIT_S)
    assert [item.id for item in added.output.items] == ["s"]
    assert ids(client, scope)[-1] == added.context.items[-1].id == "s"
    alone = client.skill(sources=[{"id": "s", "content": "skill"}]).get(WAIT_S)
    assert alone.context == alone.output


def test_tool_acts_observes_and_adds(client, scope):
    """The answer of the tool is an item of the state under its call's id."""
    result = client.tool(scope=scope, call=CALL).get(WAIT_S)
    assert (result.output.status, result.observation.message.content) == ("success", "HI")
    assert ids(client, scope)[-1] == result.context.items[-1].id == "observation:c1"


def test_a_failed_tool_is_raised_or_added(client, scope):
    """By default the flow fails and the state stays; told so, the failure is added as what it is."""
    call = {**CALL, "name": "note", "arguments": {"key": str(uuid4()), "ends": "failed"}}
    with pytest.raises(PipelineError, match="OBSERVATION_FAILED"):
        client.tool(scope=scope, call=call).get(WAIT_S)
    assert "observation:c1" not in ids(client, scope)
    added = client.tool(scope=scope, call=call, on_failed_observation="add").get(WAIT_S)
    assert added.context.items[-1].content == "failed: AS_TOLD: ended as told"


def test_a_refusal_is_raised_as_what_it_is(client, scope):
    """A tool that nobody may call is the node's own error, not a pipeline's."""
    with pytest.raises(DittoError, match="PERMISSION_DENIED") as caught:
        client.tool(scope=scope, call={**CALL, "name": "rm"}).get(WAIT_S)
    assert type(caught.value).__name__ == "InteractionError"


def test_a_context_can_be_given(client):
    """Without a scope the flow works on the context that it was given, and stores none."""
    given = {"items": [{"id": "a", "content": "x"}]}
    result = client.tool(context=given, call=CALL).get(WAIT_S)
    assert [item.id for item in result.context.items] == ["a", "observation:c1"]


def test_mcp_discovers_and_invokes(client, scope):
    """A discovery only reads the state; an invocation is observed and added."""
    found = client.mcp(scope=scope, request={"operation": "discover"}).get(WAIT_S)
    assert (found.observation, [item.id for item in found.context.items]) == (None, ids(client, scope))
    call = {"id": "m1", "name": "t0", "arguments": {"k": 1}}
    done = client.mcp(scope=scope, request={"operation": "invoke", "server": "files", "call": call})
    assert done.get(WAIT_S).observation.call_id == "m1"
    assert ids(client, scope)[-1] == "observation:m1"


def test_what_a_flow_works_on_is_checked_first(client, scope):
    """Neither or both of scope and context, or a wrong field: refused before anything is sent."""
    with pytest.raises(NodeInputError, match="/scope"):
        client.tool(call=CALL)
    with pytest.raises(NodeInputError, match="/scope"):
        client.rag(scope=scope, context={"items": []})
    with pytest.raises(NodeInputError, match="/scope"):
        client.summarize(max_tokens=1, model={"model": "m"})
    with pytest.raises(NodeInputError, match="/cal"):
        client.tool(scope=scope, cal=CALL)


def test_a_summary_replaces_exactly_its_items(client, scope, model):
    """What it rests on goes and it comes, with its origin; goal and call stay."""
    model.then(says(summary()))
    pending = summarize(client, scope)
    done = pending.get(WAIT_S)
    assert (done.removed_ids, done.usage.total_tokens) == (("a", "b"), 3)
    context = client.context.load(scope=scope).get(WAIT_S)
    assert [item.id for item in context.items] == ["goal", "call", "answer", done.summary_id]
    assert done.summary_id == f"summary:{pending.id}.update"
    metadata = context.items[-1].metadata
    assert metadata["summaryOf"] == ["a", "b"]
    assert (metadata["model"], metadata["usage"]["totalTokens"]) == ("m", 3)
    sent = [event.data["step"] for event in pending.events() if event.data.get("status") == "started"]
    assert sent == ["load", "select", "sample", "update", "compress"]


REJECTED = [
    (summary("x" * 400), PipelineError, "SUMMARY_REJECTED"),
    (summary("  "), PipelineError, "SUMMARY_REJECTED"),
    (summary(sources=["a", "nothing"]), PipelineError, "SUMMARY_REJECTED"),
    ("no JSON", InferError, "INVALID_MODEL_OUTPUT"),
]


@pytest.mark.parametrize(("said", "error", "code"), REJECTED)
def test_a_rejected_summary_leaves_the_state_byte_equal(client, scope, model, states, said, error, code):
    """Too long, empty, resting on what is not there, or no summary at all."""
    model.then(says(said))
    before = stored(states, scope)
    with pytest.raises(error, match=code):
        summarize(client, scope).get(WAIT_S)
    assert before is not None
    assert stored(states, scope) == before


def test_a_summary_of_an_older_state_is_dropped(client, scope, model, states):
    """Someone writes while the model thinks: the flow ends with STATE_CONFLICT, the write stands as it is."""
    model.then(says(*summary(), pause_s=0.05))
    pending = summarize(client, scope)
    eventually(lambda: model.requests, WAIT_S)
    client.context.update(scope=scope, add=[{"id": "new", "content": "n"}]).get(WAIT_S)
    written = stored(states, scope)
    with pytest.raises(ContextError, match="STATE_CONFLICT"):
        pending.get(WAIT_S)
    assert stored(states, scope) == written


@pytest.mark.parametrize("asked", ["goal", "call", "answer"])
def test_what_must_stay_is_not_summarised(client, scope, model, states, asked):
    """Asked for by id, a protected item or part of a call's group is refused before any model is asked."""
    before = stored(states, scope)
    with pytest.raises(PipelineError, match="NOT_SUMMARIZABLE"):
        summarize(client, scope, ids=["a", asked]).get(WAIT_S)
    assert (stored(states, scope), model.requests) == (before, [])


def test_steps_of_a_summary_that_are_delivered_again_change_nothing(client, scope, model, states):
    """After the end each step is published once more: the state is byte-equal, no model is asked."""
    model.then(says(summary()))
    pending = summarize(client, scope)
    pending.get(WAIT_S)
    after = stored(states, scope)
    steps = [("sample", "INFER.REASONING.SAMPLE", {}), ("update", "CONTEXT.UPDATE", {"scope": scope})]
    for name, node, wire in steps:
        flow_task(client.app, Step(name, node, wire, {}), pending.id, None).apply_async()
    client.context.load(scope=scope, ditto={"consistency": "session"}).get(WAIT_S)
    assert (stored(states, scope), len(model.requests)) == (after, 1)
