"""Loops on the queues with a real worker: rounds, limits, errors, cancel, deadline, resume and deaths."""

import asyncio
from uuid import uuid4

import pytest
import redis
from click.testing import CliRunner
from support import graph_fixtures as fixtures
from support.graphs import FUNCTIONS, constant, execute, graph_deployment, load
from support.graphs_extension import RAN
from support.polling import eventually

from ditto_tasks.cli import celery_group
from ditto_tasks.client.aio import AsyncDitto
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import Cancelled, ContextError, PipelineError
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loop_runs import sweep_loops
from ditto_tasks.pipelines.loops import Loop, iteration_id, run_loop

WAIT_S = 60.0
running, broker, client, key = fixtures.running, fixtures.broker, fixtures.client, fixtures.key
EVEN = Graph("even", [constant("a", "e"), load("b", "a")])
ODD = Graph("odd", [constant("c", "o")])
WAITING = Graph("waiting", [load("a", binding="test.wait")])


def loop(*nodes, **more):
    return Loop("rounds", {"only": Graph("only", nodes)}, **{**FUNCTIONS, **more})


def test_a_loop_gives_what_it_gives_in_process(client):
    """It selects a graph by the state each time, and its last state is the interpreter's."""
    both = Loop("both", {"even": EVEN, "odd": ODD}, select="test.even or odd", **FUNCTIONS)
    state = {"wanted": 5}
    pending = client.run(both, state)
    assert pending.get(WAIT_S) == run_loop(both, state, execute)
    assert pending.get(WAIT_S)["rounds"] == 5
    assert [event.data.get("iteration") for event in pending.events()] == [1, 2, 3, 4, 5]


def test_a_loop_goes_round_at_least_once(client):
    """Though its first state would be enough."""
    assert client.run(loop(constant("a")), {"wanted": 1, "rounds": 0}).get(WAIT_S)["rounds"] == 1


@pytest.mark.parametrize("limit", [3, None])
def test_a_loop_that_is_not_done_in_time_is_an_error(running, limit):
    """Its own limit counts, else runtime.loopMaxIterations."""
    runtime = running.settings.runtime.model_copy(update={"loop_max_iterations": 3})
    with Ditto(running.settings.model_copy(update={"runtime": runtime})) as own:
        pending = own.run(loop(constant("a"), max_iterations=limit), {"wanted": 9})
        with pytest.raises(PipelineError) as caught:
            pending.get(WAIT_S)
        assert (caught.value.code, caught.value.details) == ("LOOP_LIMIT_REACHED", {"maxIterations": 3})
        assert pending.state()["rounds"] == 3


def test_an_error_names_node_and_iteration(client, key, broker):
    """The loop ends with the error of its graph's run."""
    with pytest.raises(PipelineError) as caught:
        client.run(loop(load("bad", binding="test.fail")), {"wanted": 2}).get(WAIT_S)
    assert caught.value.code == "BINDING_FAILED"
    assert caught.value.details == {"binding": "test.fail", "nodeId": "bad", "iteration": 1}


@pytest.mark.parametrize(("role", "code"), [("select", "UNKNOWN_GRAPH"), ("done", "INVALID_BINDING")])
def test_functions_that_give_nonsense_end_the_loop(client, role, code):
    """A `select` gives the name of a graph, a `done` true or false."""
    with pytest.raises(PipelineError) as caught:
        client.run(loop(constant("a"), **{role: "test.nonsense"}), {"wanted": 2}).get(WAIT_S)
    assert caught.value.code == code


def test_a_failed_loop_is_resumed_at_its_iteration(client, key, broker):
    """The iterations before it and the settled nodes of its graph are not run again."""
    graph = loop(load("works", binding="test.work"), load("bad", "works", binding="test.once"))
    pending = client.run(graph, {"wanted": 2, "key": key})
    with pytest.raises(PipelineError, match="BINDING_FAILED"):
        pending.get(WAIT_S)
    assert client.resume_loop(pending.id).get(WAIT_S)["rounds"] == 2
    assert broker.llen(RAN + key) == 2


def test_a_cancelled_loop_begins_no_iteration_and_can_be_resumed(client, key, broker):
    """The caller gets Cancelled at once; resumed, it goes on in the iteration at which it was."""
    pending = client.run(loop(load("a", binding="test.wait")), {"wanted": 2, "key": key})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    pending.cancel()
    with pytest.raises(Cancelled):
        pending.get(WAIT_S)
    broker.set(f"test:go:{key}", 1, ex=600)
    view = client.app.run_records.load(pending.id)
    assert (view.kind, view.state, view.iteration) == ("loop", "cancelled", 1)
    assert client.resume_loop(pending.id).get(WAIT_S)["rounds"] == 2


def test_the_owner_of_the_shard_ends_a_loop_past_its_deadline(client, key, broker):
    """No iteration goes on for ever; resumed, it ends well."""
    pending = client.run(loop(load("a", binding="test.wait")), {"wanted": 1, "key": key}, timeout_ms=800)
    with pytest.raises(PipelineError, match="PIPELINE_DEADLINE_EXCEEDED"):
        pending.get(WAIT_S)
    broker.set(f"test:go:{key}", 1, ex=600)
    assert client.resume_loop(pending.id).get(WAIT_S)["rounds"] == 1


def test_the_state_can_be_read_between_iterations(client, key, broker):
    """While the second round waits, the state is what the first one made of it."""
    wait = load("a", binding="test.wait")
    both = Loop("both", {"even": EVEN, "odd": Graph("odd", [wait])}, select="test.even or odd", **FUNCTIONS)
    pending = client.run(both, {"wanted": 2, "key": key})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    assert pending.state()["rounds"] == 1
    view = client.app.run_records.load(pending.id)
    assert (view.iteration, [node.state for node in view.nodes]) == (2, ["running"])
    broker.set(f"test:go:{key}", 1, ex=600)
    assert pending.get(WAIT_S)["rounds"] == 2


def test_going_on_twice_at_once_changes_nothing(client, key, broker):
    """Whoever else looks after a loop begins no iteration a second time and takes none in twice."""
    pending = client.run(loop(load("a", binding="test.work")), {"wanted": 4, "key": key, "ms": 30})
    while client.app.run_records.load(pending.id).state == "running":
        client.app.loops.go_on(pending.id)
        for shard in range(64):
            sweep_loops(shard, client.app.loops)
    assert pending.get(WAIT_S)["rounds"] == 4
    assert broker.llen(RAN + key) == 4


@pytest.mark.parametrize("by", ["session", "tenant"])
def test_an_erased_session_leaves_nothing_of_its_loops(running, client, key, broker, by):
    """Erased in its second round: record, iterations, outputs and lists are gone, and none comes back."""
    tenant = f"t{uuid4().hex}"
    both = Loop("both", {"even": EVEN, "odd": WAITING}, select="test.even or odd", **FUNCTIONS)
    asked = {"wanted": 3, "key": key}
    pending = client.run(both, asked, scope={"sessionId": f"{tenant}:s"})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    assert [run.id for run in client.app.run_records.list(tenant=tenant).runs] == [pending.id]
    subject = f"{tenant}:s" if by == "session" else tenant
    erased = CliRunner().invoke(celery_group, ["erase", f"--{by}", subject], env=dict(running.variables))
    assert erased.exit_code == 0, erased.output
    broker.set(f"test:go:{key}", 1, ex=600)
    with pytest.raises(ContextError, match="ERASED"):
        pending.get(WAIT_S)
    client.run(loop(constant("x")), {"wanted": 1}).get(WAIT_S)  # the worker goes on
    kept = (":erased:", ":of:root:")  # what refuses late work, and ids of tasks
    left = [name for name in broker.scan_iter(f"*{pending.id}*") if not any(part in name for part in kept)]
    assert left == []
    listed = [
        member for name in broker.scan_iter("ditto:default:runs*") for member in broker.zrange(name, 0, -1)
    ]
    assert [member for member in listed if pending.id in member] == []


def test_the_async_client_has_the_same_loops(running):
    """A loop's run is awaited, and its state read."""

    async def ask():
        async with AsyncDitto(running.settings) as opened:
            pending = opened.run(loop(constant("a")), {"wanted": 2})
            state = await pending.get(WAIT_S)
            assert await pending.state() == state == await opened.resume_loop(pending.id)
            return state

    assert asyncio.run(ask())["rounds"] == 2


@pytest.mark.timeout(300)  # two cold starts, and the quiet time after which a node counts as lost
def test_a_killed_worker_repeats_no_settled_iteration(key):
    """Killed in the third round: the next worker goes on there, and what was settled ran once."""
    with graph_deployment() as deployed, Ditto(deployed.settings) as own:
        asked = {"wanted": 5, "key": key, "ms": 300}
        graph = loop(constant("a"), load("b", "a", binding="test.work"))
        with deployed.worker("mortal") as mortal:
            pending = own.run(graph, asked)
            eventually(lambda: pending.state().get("rounds") == 2, WAIT_S)
            eventually(lambda: nodes_of(own, pending.id, 2), WAIT_S)
            mortal.kill()
        with deployed.worker("next"), redis.Redis.from_url(deployed.server.redis_url(0)) as broker:
            assert pending.get(120)["rounds"] == 5
            assert 5 <= broker.llen(RAN + key) <= 6  # the one at work may have run twice


def nodes_of(client, run, iteration):
    view = client.app.run_records.load(iteration_id(run, iteration))
    return view is not None and view.nodes[1].state == "running"
