"""Graphs on the queues with a real worker: outputs, order, errors, cancel, deadline, progress and resume."""

import asyncio
from uuid import uuid4

import pytest
import redis
from support import graph_fixtures as fixtures
from support.flows import says
from support.graphs import (
    constant,
    execute,
    layered_graph,
    load,
    random_graph,
)
from support.graphs_extension import RAN
from support.polling import eventually
from support.provider_server import hang

from ditto_tasks.client.aio import AsyncDitto
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import Cancelled, ContextError, PipelineError
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.graph_plan import run_graph
from ditto_tasks.pipelines.graphs import Graph, GraphNode

WAIT_S = 60.0
running, broker, client, key = fixtures.running, fixtures.broker, fixtures.client, fixtures.key
ASK = {"messages": [{"role": "user", "content": "q"}]}


@pytest.fixture
def model(running):
    running.provider.requests.clear()
    running.provider.client_closed.clear()
    return running.provider


def seen(output):
    return output["items"][0]["content"]


@pytest.mark.timeout(180)
def test_random_graphs_give_what_they_give_in_process(client):
    """50 graphs at random have the outputs that the interpreter of the same graph has, node by node."""
    graphs = [random_graph(seed) for seed in range(50)]
    runs = [client.run(graph, {"seed": at}) for at, graph in enumerate(graphs)]
    for at, (graph, run) in enumerate(zip(graphs, runs, strict=True)):
        expected = run_graph(graph, {"seed": at}, execute)
        assert run.get(WAIT_S) == expected
        assert list(run.get(WAIT_S)) == list(graph.ids)


@pytest.mark.timeout(180)
def test_a_thousand_nodes_in_twenty_levels(client):
    """All of them end, and the last level tells what came through the nineteen before it."""
    graph = layered_graph(20, 50)
    outputs = client.run(graph, {"seed": 1}).get(WAIT_S * 2)
    assert outputs == run_graph(graph, {"seed": 1}, execute)
    assert (len(outputs), len(graph.levels())) == (1000, 20)


def test_scoped_nodes_run_on_their_shard_with_the_runs_scope(client):
    """A node says `run` for the run's scope or names another; both states are written."""
    own, other = {"sessionId": str(uuid4())}, {"sessionId": str(uuid4())}
    added = {"add": [{"id": "a", "content": "x"}]}
    create = {"onMissing": "create"}
    graph = Graph(
        "scoped",
        [
            GraphNode("own", "CONTEXT.UPDATE", input=added, scope="run", options=create),
            GraphNode("other", "CONTEXT.UPDATE", input=added, scope=Scope.parse(other), options=create),
            GraphNode("read", "CONTEXT.LOAD", dependencies=("own",), scope="run"),
        ],
    )
    run = client.run(graph, scope=own)
    outputs = run.get(WAIT_S)
    assert outputs["own"]["operationId"] == f"{run.id}.own"
    assert outputs["read"]["items"] == added["add"]
    assert client.context.load(scope=other).get(WAIT_S).items[0].id == "a"


def test_what_cannot_run_is_refused_before_anything_is_recorded(client, broker):
    """Without a scope that a node asks for, or with a node type that the application does not know."""
    scoped = Graph("s", [GraphNode("a", "CONTEXT.LOAD", scope="run")])
    with pytest.raises(PipelineError, match="/nodes/0/scope"):
        client.run(scoped, run_id="refused")
    with pytest.raises(PipelineError, match="UNKNOWN_NODE"):
        client.run(Graph("s", [GraphNode("a", "MINE.NODE")]), run_id="refused")
    assert list(broker.scan_iter("*graph:refused*")) == []


def test_concurrency_of_one_is_the_order_of_declaration(running, key, broker):
    """Independent nodes start one after another as they are declared, though the last one could go first."""
    runtime = running.settings.runtime.model_copy(update={"graph_concurrency": 1})
    nodes = [constant("a"), load("b"), load("c", "a"), load("d"), load("e", "c", "b")]
    with Ditto(running.settings.model_copy(update={"runtime": runtime})) as own:
        run = own.run(Graph("one", nodes), None)
        run.get(WAIT_S)
        said = [(event.data["step"], event.data["status"]) for event in run.events() if "step" in event.data]
    assert said == [(node.id, status) for node in nodes for status in ("started", "finished")]


def test_no_more_nodes_are_in_flight_than_allowed(client, key, broker):
    """Of twelve independent nodes that wait, the settings' eight run, and the others after them."""
    run = client.run(Graph("wide", [load(f"n{at}", binding="test.wait") for at in range(12)]), {"key": key})
    eventually(lambda: broker.llen(RAN + key) == 8, WAIT_S)
    assert broker.zcard(f"ditto:default:graph:{run.id}:flight") == 8
    broker.set(f"test:go:{key}", 1, ex=600)
    assert len(run.get(WAIT_S)) == 12


def test_the_first_error_ends_the_run_and_names_the_node(client, key, broker):
    """Nothing new starts; what is at work ends and is recorded; the error's text holds no content."""
    nodes = [
        load("slow", binding="test.wait"),
        load("bad", binding="test.fail"),
        load("after", "bad"),
        load("never", "slow"),
    ]
    run = client.run(Graph("fails", nodes), {"key": key})
    with pytest.raises(PipelineError) as caught:
        run.get(WAIT_S)
    assert (caught.value.code, caught.value.details["nodeId"]) == ("BINDING_FAILED", "bad")
    assert "secret" not in str(caught.value)
    assert run.outputs() == {}
    broker.set(f"test:go:{key}", 1, ex=600)
    eventually(lambda: run.outputs().keys() == {"slow"}, WAIT_S)
    states = {node.id: node.state for node in client.app.run_records.load(run.id).nodes}
    assert states == {"slow": "done", "bad": "failed", "after": "skipped", "never": "skipped"}


def test_a_nodes_own_error_keeps_its_kind_and_code(client):
    """CONTEXT raises: the caller gets that error, with the node among its details."""
    scope = {"sessionId": str(uuid4())}
    run = client.run(Graph("raises", [GraphNode("read", "CONTEXT.LOAD", scope="run")]), scope=scope)
    with pytest.raises(ContextError) as caught:
        run.get(WAIT_S)
    assert (caught.value.code, caught.value.details) == ("CONTEXT_NOT_FOUND", {"nodeId": "read"})


def test_a_failed_node_result_is_data(client, model):
    """A search without a memory fails as a result, and the node after it sees that."""
    search = GraphNode("search", "MEMORY.SEARCH", input={"query": "q"})
    outputs = client.run(Graph("data", [search, constant("next", "x", "search")])).get(WAIT_S)
    assert outputs["search"]["status"] == "failed"
    assert seen(outputs["next"]) == "x"


def test_outputs_can_be_read_while_the_run_goes_on(client, key, broker):
    """What has settled is there, by node, before the run has ended."""
    nodes = [constant("first", "early"), load("last", "first", binding="test.wait")]
    run = client.run(Graph("progress", nodes), {"key": key})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    assert seen(run.outputs()["first"]) == "early"
    assert client.run_outputs(run.id, ["last", "first"]).keys() == {"first"}
    view = client.app.run_records.load(run.id)
    assert [node.state for node in view.nodes] == ["done", "running"]
    broker.set(f"test:go:{key}", 1, ex=600)
    assert run.get(WAIT_S).keys() == {"first", "last"}


def test_a_cancelled_run_stops_what_is_at_work_and_begins_nothing(client, model):
    """The caller gets Cancelled at once, the model's request is closed, and the node has no output."""
    model.then(hang())
    ask = GraphNode("ask", "INFER.REASONING.SAMPLE", input=ASK)
    run = client.run(Graph("cancelled", [ask, constant("after", "x", "ask")]))
    eventually(lambda: model.requests, WAIT_S)
    run.cancel()
    with pytest.raises(Cancelled):
        run.get(WAIT_S)
    assert model.client_closed.wait(WAIT_S)
    eventually(lambda: states_of(client, run)["ask"] == "skipped", WAIT_S)
    assert run.outputs() == {}
    assert client.app.run_records.load(run.id).state == "cancelled"


def test_a_cancelled_run_is_resumed_where_it_was(client, model):
    """What was settled stays, what was stopped is asked again, and the caller gets the outputs."""
    model.then(hang())
    nodes = [
        constant("first", "kept"),
        GraphNode("ask", "INFER.REASONING.SAMPLE", dependencies=("first",), input=ASK),
    ]
    run = client.run(Graph("resumed", nodes))
    eventually(lambda: model.requests, WAIT_S)
    run.cancel()
    eventually(lambda: states_of(client, run)["ask"] == "skipped", WAIT_S)
    model.then(says("fine"))
    outputs = client.resume(run.id).get(WAIT_S)
    assert outputs["ask"]["output"]["message"]["content"] == "fine"
    started = [event.data.get("step") for event in run.events() if event.data["status"] == "started"]
    assert started == ["first", "ask", "ask"]


def test_a_failed_run_is_resumed_without_repeating_what_was_settled(client, key, broker):
    """The node that raised runs again, those before it do not, and those after it run."""
    nodes = [load("before", binding="test.work"), load("bad", "before", binding="test.once")]
    run = client.run(Graph("mended", [*nodes, load("after", "bad")]), {"key": key})
    with pytest.raises(PipelineError, match="BINDING_FAILED"):
        run.get(WAIT_S)
    outputs = client.resume(run.id).get(WAIT_S)
    assert outputs.keys() == {"before", "bad", "after"}
    assert broker.llen(RAN + key) == 1


def test_resuming_what_goes_on_or_is_done_changes_nothing(client, key, broker):
    """A running run stays as it is, one that is done keeps its outputs, an unknown one is an error."""
    run = client.run(Graph("going", [load("a", binding="test.wait")]), {"key": key})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    again = client.resume(run.id)
    broker.set(f"test:go:{key}", 1, ex=600)
    outputs = again.get(WAIT_S)
    assert client.resume(run.id).get(WAIT_S) == outputs
    assert broker.llen(RAN + key) == 1
    with pytest.raises(PipelineError, match="RUN_NOT_FOUND"):
        client.resume("nothing")


def test_the_owner_of_the_shard_ends_a_run_past_its_deadline(client, key, broker):
    """A node that does not look at the clock holds nobody up; resumed, the run ends well."""
    run = client.run(Graph("late", [load("a", binding="test.wait")]), {"key": key}, timeout_ms=800)
    with pytest.raises(PipelineError, match="PIPELINE_DEADLINE_EXCEEDED"):
        run.get(WAIT_S)
    broker.set(f"test:go:{key}", 1, ex=600)
    assert client.resume(run.id).get(WAIT_S).keys() == {"a"}


def test_a_node_that_is_delivered_again_has_no_second_effect(client, key, broker):
    """After its end, while the run goes on and when it has ended, and while it is at work: it runs once."""
    nodes = [load("a", binding="test.work"), load("b", "a", binding="test.wait")]
    run = client.run(Graph("doubled", nodes), {"key": key})
    eventually(lambda: broker.llen(RAN + key) == 2, WAIT_S)
    repeat(client, run.id, "a")
    repeat(client, run.id, "b")
    client.run(Graph("after", [constant("x")])).get(WAIT_S)
    broker.set(f"test:go:{key}", 1, ex=600)
    outputs = run.get(WAIT_S)
    repeat(client, run.id, "a")
    repeat(client, run.id, "b")
    client.run(Graph("after", [constant("x")])).get(WAIT_S)
    assert (broker.llen(RAN + key), run.outputs()) == (2, outputs)


def repeat(client, run, node):
    client.app.send_task(
        "CONTEXT.LOAD", kwargs={}, task_id=f"{run}.{node}", root_id=run, headers={"ditto_graph": 1}
    )


def states_of(client, run):
    return {node.id: node.state for node in client.app.run_records.load(run.id).nodes}


def test_the_async_client_has_the_same_runs(running):
    """A run is awaited, read by reference, and gives what the blocking client gives."""

    async def ask():
        async with AsyncDitto(running.settings) as opened:
            run = opened.run(Graph("async", [constant("a", "hi"), load("b", "a")]), "in")
            outputs = await run.get(WAIT_S)
            assert await run.outputs(["a"]) == {"a": outputs["a"]}
            assert await opened.resume(run.id) == outputs
            return outputs

    outputs = asyncio.run(ask())
    assert (seen(outputs["a"]), seen(outputs["b"])) == ("hi", "in|a=hi")


def test_only_a_receipt_goes_through_the_result_backend(running, client):
    """Outputs stay where they are: under the run's id Celery keeps no copy, and under the nodes' nothing."""
    run = client.run(Graph("receipt", [constant("a", "x" * 1000)]))
    run.get(WAIT_S)
    with redis.Redis.from_url(running.server.redis_url(1), decode_responses=True) as results:
        stored = {name: results.get(name) for name in results.scan_iter(f"*{run.id}*")}
    assert list(stored) == [f"celery-task-meta-{run.id}"]
    assert "xxx" not in stored[f"celery-task-meta-{run.id}"]
