"""Listings of runs on a real server: they read names and times, however much a run holds."""

from contextlib import closing

import pytest
import redis
from support.graphs import constant
from support.workers import client_app

from ditto_tasks.client.flows import flow_request
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.canvas import answer_request
from ditto_tasks.pipelines.graph_values import Opening
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loop_records import LoopOpening

KEYS = Keys("default")
UNREADABLE = "no JSON"  # whatever reads it raises
ERROR = {"kind": "Cancelled", "code": "CANCELLED", "message": "m", "details": {}}
ANSWER = answer_request({"sessionId": "s"}, "why?", store_turn=False)
FLOW = flow_request("rag", {"query": "why?"}, {"sessionId": "s"}, None)


@pytest.fixture
def app(server):
    """An application without workers: what it publishes waits in queues."""
    with closing(client_app(server)) as opened:
        yield opened


@pytest.fixture
def broker(server):
    with redis.Redis.from_url(server.redis_url(0), decode_responses=True) as client:
        yield client


def listed(app, kind, run):
    app.run_index.add(kind, run, tenant=None, ttl_ms=60_000)
    [found] = app.run_records.list().runs
    return found


@pytest.mark.parametrize("asked", [ANSWER, FLOW], ids=["answer", "flow"])
@pytest.mark.parametrize("ends", [False, True], ids=["running", "cancelled"])
def test_a_pipeline_is_listed_as_it_is_shown(app, broker, asked, ends):
    """State, times, code and settled steps are those of the whole record, of which no value is read."""
    app.records.open("p", asked, shard=7, deadline_ms=60_000)
    first = app.run_records.load("p").nodes[0].id
    app.records.begin("p", first)
    if ends:
        app.records.settle("p", "failed", ERROR)
    shown = app.run_records.load("p")
    broker.hset(KEYS.pipeline("p"), mapping={"request": UNREADABLE, "result:more": UNREADABLE})
    found = listed(app, "pipeline", "p")
    for name in ("kind", "name", "state", "opened_ms", "deadline_ms", "ended_ms"):
        assert getattr(found, name) == getattr(shown, name), name
    assert found.settled == shown.settled + 1 == 1 + ends
    assert found.code == ("CANCELLED" if ends else None)
    assert found.total == (len(shown.nodes) if asked is ANSWER else None)


def test_a_loop_is_listed_without_its_state(app, broker):
    """Neither the loop nor what it works on is read."""
    app.loops.records.open(LoopOpening("l", {"name": "counts", "graphs": {}}, 1, 7, 60_000, 8, 3, None, {}))
    app.loops.records.step("l", 0, 2, done=True)
    broker.hset(KEYS.loop("l"), mapping={"request": UNREADABLE, "value": UNREADABLE})
    found = listed(app, "loop", "l")
    assert (found.kind, found.name, found.state, found.settled) == ("loop", "counts", "done", 1)


def test_a_graph_is_listed_without_its_nodes(app, broker):
    """Neither its plan nor what its nodes are is read."""
    app.graphs.records.open(Opening("g", Graph("small", [constant("a")]), {}, 7, 60_000, 8))
    broker.hset(KEYS.graph("g"), mapping={"plan": UNREADABLE, "spec:a": UNREADABLE})
    found = listed(app, "graph", "g")
    assert (found.kind, found.name, found.state, found.total) == ("graph", "small", "running", 1)
