"""Runs of graphs whose nodes are lost, late or killed: every run ends, and nothing settled is repeated."""

import base64
import json
from uuid import uuid4

import pytest
import redis
from support import graph_app
from support import graph_fixtures as fixtures
from support.deployments import deployment
from support.graph_kills import kill_workers
from support.graphs import constant, graph_deployment
from support.polling import eventually
from support.workers import WorkerProcess, environment

from ditto_tasks.client.graphs import run_call, shard_for
from ditto_tasks.client.sync import Ditto
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.graph_runs import sweep_graphs
from ditto_tasks.pipelines.graph_values import Opening
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.settings import load_settings

WAIT_S = 60.0
broker = fixtures.broker
SHARDS = range(64)
SHORT_LEASES = "runtime:\n  shards:\n    leaseMs: 1000\n"
ASK = {"messages": [{"role": "user", "content": "q"}]}


@pytest.fixture(scope="module")
def running():
    """A deployment in which nobody serves INFER, so that nodes of that domain wait in their queue."""
    with deployment(SHORT_LEASES) as deployed, deployed.worker("ditto.ctx", "ditto.context"):
        yield deployed


@pytest.fixture
def client(running, broker):
    broker.delete("ditto.infer")
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def waiting(client, broker):
    """A run whose second node waits in its queue."""
    ask = GraphNode("ask", "INFER.REASONING.SAMPLE", dependencies=("first",), input=ASK)
    run = client.run(Graph("waits", [constant("first"), ask]))
    eventually(lambda: broker.llen("ditto.infer"), WAIT_S)
    yield run
    run.cancel()


def sweep_all(client, *, quiet_ms):
    for shard in SHARDS:
        sweep_graphs(shard, client.app.graphs, quiet_ms=quiet_ms)


def test_a_lost_node_is_handed_out_again_under_its_id(running, client, broker, waiting):
    """A message that vanished is replaced, and the node before it is not run again."""
    broker.delete("ditto.infer")
    sweep_all(client, quiet_ms=1)
    eventually(lambda: broker.llen("ditto.infer"), WAIT_S)
    with running.worker("ditto.infer", name="infer"):
        assert waiting.get(WAIT_S).keys() == {"first", "ask"}
    started = [event.data["step"] for event in waiting.events() if event.data["status"] == "started"]
    assert started == ["first", "ask"]


def test_a_nodes_message_holds_ids_and_no_content(client, broker):
    """Neither the run's input, nor what it depends on, nor its own constant input is sent."""
    said = {"messages": [{"role": "user", "content": "canary"}]}
    ask = GraphNode("ask", "INFER.REASONING.SAMPLE", dependencies=("first",), input=said)
    run = client.run(Graph("quiet", [constant("first", "canary"), ask]), {"x": "canary"})
    [message] = eventually(lambda: broker.lrange("ditto.infer", 0, -1), WAIT_S)
    sent = json.loads(message)
    assert sent["headers"]["id"] == f"{run.id}.ask"
    assert b"deadlineMs" in base64.b64decode(sent["body"])
    assert "canary" not in message
    assert b"canary" not in base64.b64decode(sent["body"])
    run.cancel()


def test_a_node_that_is_only_late_is_left_alone(client, broker, waiting):
    """Within the quiet time nothing is handed out again, and with a sending it begins anew."""
    sweep_all(client, quiet_ms=60_000)
    assert broker.llen("ditto.infer") == 1
    sweep_all(client, quiet_ms=1)
    sweep_all(client, quiet_ms=60_000)
    assert broker.llen("ditto.infer") == 2


def test_both_deliveries_of_a_late_node_run_it_once(running, client, broker, waiting):
    """The second one finds that it has settled or is at work, and does nothing."""
    sweep_all(client, quiet_ms=1)
    eventually(lambda: broker.llen("ditto.infer") == 2, WAIT_S)
    with running.worker("ditto.infer", name="infer"):
        waiting.get(WAIT_S)
        eventually(lambda: not broker.llen("ditto.infer"), WAIT_S)
    started = [event.data["step"] for event in waiting.events() if event.data["status"] == "started"]
    assert started == ["first", "ask"]


def test_a_cancelled_runs_queued_node_asks_no_model_and_is_ready_for_a_resume(running, client, waiting):
    """The message is taken and refused; resumed, the node is sent anew and the run ends well."""
    waiting.cancel()
    with running.worker("ditto.infer", name="infer"):
        with pytest.raises(PipelineError, match="PIPELINE_ENDED"):
            client.result(f"{waiting.id}.ask").get(WAIT_S)
        assert client.resume(waiting.id).get(WAIT_S).keys() == {"first", "ask"}


def test_a_run_whose_client_died_at_its_start_goes_on(client):
    """It was recorded, and nothing of it was sent: the owner of its shard does that."""
    call = run_call(Graph("begun", [constant("a")]), None, {})
    shard = shard_for(client.app, call.run, None)
    client.app.graphs.records.open(Opening(call.run, call.what, None, shard, 60_000, 8))
    assert client.result(call.run).get(WAIT_S) == {"runId": call.run, "graph": "begun"}


def test_an_end_that_was_not_announced_is_announced_by_the_owner(client, waiting):
    """Whoever ended the run died before telling: the recorded error reaches the caller."""
    error = {"kind": "InferError", "code": "MODEL_ERROR", "message": "no", "details": {"nodeId": "ask"}}
    client.app.graphs.records.end(waiting.id, "failed", error)
    with pytest.raises(Exception, match="MODEL_ERROR") as caught:
        waiting.get(WAIT_S)
    assert caught.value.details == {"nodeId": "ask"}
    tracked = client.app.graphs.records.tracked
    eventually(lambda: not any(waiting.id in tracked(shard) for shard in SHARDS), WAIT_S)


@pytest.mark.timeout(420)  # cold starts, and the quiet time after which a node counts as lost
def test_killed_workers_leave_runs_that_end_with_the_right_outputs():
    """Four kills: every run ends, its outputs are those of the interpreter, nothing settled runs again."""
    with graph_deployment() as deployed:
        outcome = kill_workers(deployed, kills=4, runs=3, node_ms=150)
    assert outcome.wrong == []
    assert (outcome.kills, outcome.nodes) == (4, outcome.runs * 30)


@pytest.mark.timeout(300)  # two cold starts, and the quiet time after which a node counts as lost
def test_a_tool_at_work_when_its_worker_dies_is_not_called_again():
    """The next worker learns from the ledger that nobody knows, and that is the node's output: data."""
    key = f"k{uuid4().hex}"
    call = {"id": "c1", "name": "note", "arguments": {"key": key, "hang": True}}
    act = GraphNode("act", "INTERACTION.ACT.TOOL", dependencies=("first",), input={"call": call})
    graph = Graph("acts", [constant("first"), act, constant("after", "x", "act")])
    with (
        graph_deployment() as deployed,
        Ditto(deployed.settings) as own,
        redis.Redis.from_url(deployed.server.redis_url(0)) as counts,
    ):
        with deployed.worker("mortal") as mortal:
            run = own.run(graph)
            eventually(lambda: counts.get(f"test:{key}"), WAIT_S)
            mortal.kill()
        with deployed.worker("next"):
            outputs = run.get(120)
        assert (outputs["act"]["status"], int(counts.get(f"test:{key}"))) == ("unknown", 1)
        assert outputs.keys() == {"first", "act", "after"}


def test_an_applications_own_nodes_pass_large_outputs_on():
    """A client that knows the node types runs a graph of them; what they give goes by reference."""
    made = [GraphNode(f"n{at}", graph_app.MAKE, input={"size": 200_000}) for at in range(3)]
    last = GraphNode("last", graph_app.MEASURE, dependencies=("n0", "n1", "n2"), binding="bench.gather")
    with (
        EmbeddedServer() as server,
        WorkerProcess(server, app=graph_app.NAME),
        Ditto(load_settings(None, environment(server)), nodes=graph_app.ROWS) as own,
    ):
        run = own.run(Graph("own", [*made, last]))
        own.result(run.id).get(WAIT_S)
        assert run.outputs(["last"]) == {"last": 600_000}
