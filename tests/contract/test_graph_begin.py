"""A graph's node asks its run once, when it begins: does it go on, and is there time left?"""

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis
from support.graphs import constant, load
from support.workers import client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.graph_runs import Delivery
from ditto_tasks.pipelines.graph_values import Given, Opening, Refusal
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.redis_replies import clock_ms
from ditto_tasks.task import OPTIONS_KEY

RUN = "r"
GRAPH = Graph("g", [constant("a"), load("b", "a")])
RECORD = Keys("default").graph(RUN)
LATER_MS = 60_000
END: JsonObject = {"kind": "PipelineError", "code": "X", "message": "m", "details": {}}
NODE = Delivery(RUN, "a", "CONTEXT", redelivered=False)


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.redis_url(0), decode_responses=True) as client:
        yield client


@pytest.fixture
def app(server: EmbeddedServer) -> Iterator[DittoCelery]:
    """An application without workers, and a run of it whose first node was handed out."""
    with closing(client_app(server)) as opened:
        opened.graphs.records.open(Opening(RUN, GRAPH, None, 7, LATER_MS, 8))
        assert handed_out(opened) == ["a"]
        yield opened


def handed_out(app: DittoCelery) -> list[str]:
    standing = app.graphs.records.hand_out(RUN)
    assert standing is not None
    return [each.node for each in standing.handed]


def begun(app: DittoCelery, node: str = "a") -> Given | Refusal:
    return app.graphs.records.begin(RUN, node, 1, redelivered=False, quiet_ms=LATER_MS)


def let_its_time_pass(broker: "redis.Redis") -> None:
    """The run's deadline is now, by the server's clock."""
    broker.hset(RECORD, "deadline", clock_ms(broker.time()))


def ended(app: DittoCelery) -> None:
    assert app.graphs.records.end(RUN, "cancelled", END)


def test_a_node_does_not_begin_past_its_runs_deadline(app: DittoCelery, broker: "redis.Redis") -> None:
    """Nobody has ended the run yet, and all the same the node computes nothing and is not at work."""
    computed: list[JsonObject] = []

    def compute(wire: JsonObject) -> JsonValue:
        computed.append(wire)
        return None

    let_its_time_pass(broker)
    with pytest.raises(PipelineError, match="PIPELINE_ENDED"):
        app.graphs.run_node(NODE, compute)
    assert computed == []
    assert not broker.hexists(RECORD, "began:a")
    assert broker.hget(RECORD, "state") == "running"


def test_a_node_that_begins_in_time_is_given_its_runs_deadline(
    app: DittoCelery, broker: "redis.Redis"
) -> None:
    """It has as much time as its run."""
    told: list[JsonValue] = []
    app.graphs.run_node(NODE, lambda wire: told.append(wire[OPTIONS_KEY]))
    assert told == [{"deadlineMs": int(broker.hget(RECORD, "deadline") or 0)}]


def test_a_node_does_not_begin_once_its_run_has_ended(app: DittoCelery) -> None:
    """In time, too: what a cancelled run has in queues does nothing."""
    ended(app)
    assert begun(app) == "ended"


def test_a_node_that_came_too_late_is_handed_out_when_its_run_is_resumed(app: DittoCelery) -> None:
    """Its message is gone, and nothing waits until it counts as silent."""
    ended(app)
    begun(app)
    app.graphs.records.resume(RUN, LATER_MS, 1)
    assert handed_out(app) == ["a"]
    assert isinstance(begun(app), Given)


def test_a_second_delivery_after_the_end_takes_nothing_from_a_node_at_work(app: DittoCelery) -> None:
    """It settles all the same; resumed meanwhile the run does not hand it out beside itself."""
    assert isinstance(begun(app), Given)
    ended(app)
    assert begun(app) == "ended"
    app.graphs.records.resume(RUN, LATER_MS, 1)
    assert handed_out(app) == []


def test_a_delivery_that_nobody_sent_makes_no_node_ready(app: DittoCelery) -> None:
    """A node whose dependencies have not settled does not start when the run is resumed."""
    ended(app)
    assert begun(app, "b") == "ended"
    app.graphs.records.resume(RUN, LATER_MS, 1)
    assert handed_out(app) == []
