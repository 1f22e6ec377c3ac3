"""Records of graph and loop runs on a real server: each operation atomic, idempotent, and bounded in time."""

import time
from contextlib import closing

import pytest
import redis
from support.graphs import constant, load
from support.polling import eventually
from support.workers import client_app

from ditto_tasks.client.graphs import cancel_run, resume_run
from ditto_tasks.errors import Cancelled, ContextError, DeadLettered, PipelineError
from ditto_tasks.json_values import encode
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.graph_records import MAX_DEATHS
from ditto_tasks.pipelines.graph_runs import sweep_graphs
from ditto_tasks.pipelines.graph_values import Given, Opening, Stopped
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loop_records import LoopOpening
from ditto_tasks.pipelines.loop_runs import sweep_loops
from ditto_tasks.pipelines.outcomes import error_to_wire

GRAPH = Graph("g", [constant("a"), load("b", "a"), load("c", "a", "b")])
FREE = Stopped(stopped=False, renewed=True, resumes=0)
ERROR = {"kind": "PipelineError", "code": "X", "message": "m", "details": {}}


@pytest.fixture
def broker(server):
    with redis.Redis.from_url(server.redis_url(0), decode_responses=True) as client:
        yield client


@pytest.fixture
def app(server):
    """An application without workers: what it publishes waits in queues."""
    with closing(client_app(server)) as opened:
        yield opened


@pytest.fixture
def records(app):
    return app.graphs.records


def opening(graph=GRAPH, run="r", **more):
    return Opening(run, graph, {"x": 1}, 7, 60_000, 8, **more)


@pytest.fixture
def opened(records):
    assert records.open(opening())
    return records


def begin(records, node, attempt=1, *, redelivered=False):
    return records.begin("r", node, attempt, redelivered=redelivered, quiet_ms=60_000)


def settle(records, node, output=None, attempt=1):
    return records.settle("r", node, attempt, encode(output), FREE)


def handed(standing):
    return [each.node for each in standing.handed]


def test_a_run_goes_from_node_to_node(opened, broker):
    """Each end hands out what may start then, each node sees its dependencies, the last end is the run's."""
    assert handed(opened.hand_out("r")) == ["a"]
    assert isinstance(begin(opened, "a"), Given)
    assert handed(settle(opened, "a", {"n": 1})) == ["b"]
    given = begin(opened, "b")
    assert (given.input, given.outputs) == ({"x": 1}, {"a": {"n": 1}})
    assert handed(settle(opened, "b", 2)) == ["c"]
    assert begin(opened, "c").outputs == {"a": {"n": 1}, "b": 2}
    assert settle(opened, "c", None).state == "done"
    assert opened.outputs("r", ["a", "b", "c"]) == {"a": {"n": 1}, "b": 2, "c": None}
    assert not broker.exists("ditto:default:graph:r:ready", "ditto:default:graph:r:flight")


def test_a_second_output_changes_nothing(opened):
    """The first one stands, and nothing is handed out twice."""
    opened.hand_out("r")
    begin(opened, "a")
    settle(opened, "a", 1)
    assert handed(settle(opened, "a", 2)) == []
    assert opened.outputs("r", ["a"]) == {"a": 1}
    assert begin(opened, "a") == "settled"


def test_opening_again_changes_nothing_and_tells_another_request(opened):
    """The same request is the run that is there; another one under its id is not."""
    opened.hand_out("r")
    assert opened.open(opening())
    assert not opened.open(opening(Graph("g", [constant("a", "other")])))
    assert [node for node, _, _ in opened.plan("r")] == ["a", "b", "c"]


def test_another_request_under_a_known_id_is_refused(app):
    """A caller hears that the id is taken, instead of another run's outputs."""
    app.graphs.start(opening())
    with pytest.raises(PipelineError, match="RUN_EXISTS"):
        app.graphs.start(opening(Graph("other", [constant("a")])))
    loop = LoopOpening("l", {"name": "l", "graphs": {}}, 1, 7, 60_000, 8, 3, None, {})
    assert app.loops.records.open(loop)
    assert not app.loops.records.open(LoopOpening("l", loop.loop, 2, 7, 60_000, 8, 3, None, {}))


def test_calls_without_a_record_leave_no_key(records, app, broker):
    """Nothing but opening creates anything."""
    assert begin(records, "a") == "unknown"
    assert settle(records, "a") is None
    assert records.raised("r", "a", 1, ERROR, FREE) is None
    assert records.hand_out("r") is None
    assert records.tend("r", 0) is None
    assert not records.end("r", "failed", ERROR)
    records.beat("r", "a")
    records.announced("r", 0)
    records.resume("r", 1_000, 1)
    assert app.loops.records.step("r", 0, 1, done=True) is None
    app.loops.records.resume("r", 1_000, 1)
    app.loops.records.announced("r", 0)
    assert app.loops.records.head("r") is None
    assert broker.keys("*") == []


def test_a_run_is_ended_once(opened):
    """Whoever ends it is told so, and nobody else."""
    assert opened.end("r", "cancelled", ERROR)
    assert not opened.end("r", "failed", ERROR)
    assert opened.raised("r", "a", 1, ERROR, FREE) is None
    assert opened.head("r").state == "cancelled"


def test_a_sweep_that_saw_a_run_before_its_resume_ends_nothing(opened):
    """In the instant of a resume it finds a run that has ended, or one that was resumed oftener."""
    opened.end("r", "failed", ERROR)
    opened.resume("r", 120_000, 1)
    assert not opened.end("r", "failed", ERROR, resumes=0)
    assert opened.end("r", "failed", ERROR, resumes=1)


def test_a_run_is_resumed_once_by_all_who_saw_the_same_end(opened):
    """The second of them changes nothing, not even the deadline."""
    opened.end("r", "failed", ERROR)
    opened.resume("r", 120_000, 1)
    deadline_ms = opened.progress("r").deadline_ms
    opened.resume("r", 240_000, 1)
    assert opened.progress("r").deadline_ms == deadline_ms
    assert opened.head("r").resumes == 1


def test_a_run_that_goes_on_again_stays_on_its_list(opened, broker):
    """Announcing an earlier end comes too late: somebody has to look after it."""
    opened.end("r", "failed", ERROR)
    opened.resume("r", 60_000, 1)
    opened.announced("r", 0)
    assert opened.tracked(7) == ["r"]
    opened.end("r", "failed", ERROR)
    opened.announced("r", 0)
    assert opened.tracked(7) == ["r"]
    opened.announced("r", 1)
    assert opened.tracked(7) == []


def test_a_raised_node_runs_again_as_another_attempt(opened):
    """The first one's late delivery is of no use any more."""
    opened.hand_out("r")
    begin(opened, "a")
    assert opened.raised("r", "a", 1, ERROR, FREE) == "failed"
    opened.resume("r", 60_000, 1)
    [again] = opened.hand_out("r").handed
    assert (again.node, again.attempt) == ("a", 2)
    assert begin(opened, "a", 1) == "stale"
    assert isinstance(begin(opened, "a", 2), Given)


@pytest.mark.parametrize(("resumes", "expected"), [(0, ["a"]), (1, ["b"])])
def test_a_node_that_was_stopped_before_the_resume_runs_again(opened, resumes, expected):
    """Asked to stop with the run as it was, it says so when the run goes on; one of now has just ended so."""
    opened.hand_out("r")
    begin(opened, "a")
    opened.end("r", "cancelled", ERROR)
    opened.resume("r", 60_000, 1)
    how = Stopped(stopped=True, renewed=True, resumes=resumes)
    assert handed(opened.settle("r", "a", 1, encode(None), how)) == expected


def test_a_delivery_while_the_node_is_at_work_is_of_no_use(opened):
    """Unless its shard delivers it again, or it was handed out again for silence."""
    opened.hand_out("r")
    begin(opened, "a")
    assert begin(opened, "a") == "busy"
    assert isinstance(begin(opened, "a", redelivered=True), Given)
    assert handed(opened.tend("r", 0)) == ["a"]
    assert isinstance(begin(opened, "a"), Given)


def test_a_node_at_which_workers_die_ends_its_run(app, opened):
    """Any worker may be killed; at the same node again and again it is no accident."""
    opened.hand_out("r")
    for _ in range(MAX_DEATHS):
        assert opened.head("r").state == "running"
        assert isinstance(begin(opened, "a"), Given)
        app.graphs.tend("r", quiet_ms=0)
    head = opened.head("r")
    assert (head.state, head.error["code"], head.error["details"]) == (
        "failed",
        "DEAD_LETTERED",
        {"nodeId": "a"},
    )
    with pytest.raises(DeadLettered):
        raise app.AsyncResult("r").result


def test_a_node_that_was_given_up_has_all_its_deaths_again_when_it_is_resumed(app, opened):
    """Whoever resumes the run has mended something: one more death is no reason to end it."""
    opened.hand_out("r")
    for _ in range(MAX_DEATHS):
        begin(opened, "a")
        app.graphs.tend("r", quiet_ms=0)
    app.graphs.resume("r", 60_000, 1)
    assert isinstance(begin(opened, "a"), Given)
    app.graphs.tend("r", quiet_ms=0)
    assert opened.head("r").state == "running"


def test_patience_doubles_with_each_sending(opened):
    """A queue may just be long: each time the silence must last twice as long."""
    asked_s, answered_s = [time.monotonic()], [0.0]  # of the calls that sent
    opened.hand_out("r")

    def sent_again() -> bool:
        before_s = time.monotonic()
        if not handed(opened.tend("r", 100)):
            return False
        asked_s.append(before_s)
        answered_s.append(time.monotonic())
        return True

    for _ in range(3):
        eventually(sent_again)
    assert answered_s[2] - asked_s[1] > 0.19
    assert answered_s[3] - asked_s[2] > 0.39


def test_a_node_that_only_waits_is_never_given_up(app, opened):
    """A long queue is no death."""
    opened.hand_out("r")
    for _ in range(2 * MAX_DEATHS):
        app.graphs.tend("r", quiet_ms=0)
    assert opened.head("r").state == "running"


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_looked_after(app, opened, broker, caplog):
    """A record of another version is logged by the kind of the error alone, and the sweep goes on."""
    loop = LoopOpening("l", {"name": "canary", "graphs": {}}, 1, 7, 60_000, 8, 3, None, {})
    app.loops.records.open(loop)
    broker.hset("ditto:default:graph:r", "spec:a", '["canary"]')
    broker.hset("ditto:default:loop:l", "request", "{}")
    opened.open(opening(run="s"))
    sweep_graphs(7, app.graphs)
    sweep_loops(7, app.loops)
    assert broker.zcard("ditto:default:graph:s:flight") == 1
    assert [
        record.message for record in caplog.records if "could not be looked after" in record.message
    ] != []
    assert "canary" not in caplog.text


def test_everything_of_a_run_ends_with_its_record(opened, broker):
    """The outputs and what is in flight live no longer than the record, which a resume prolongs."""
    most = 60_000 + 3_600_000
    begin(opened, "a")  # a delivery that nobody awaits any more
    in_time(broker, most)
    settle(opened, "a", 1)
    in_time(broker, most)
    opened.end("r", "failed", ERROR)
    opened.resume("r", 600_000, 1)
    assert all(broker.pttl(name) > most for name in broker.scan_iter("ditto:default:graph:*"))


def in_time(broker, most):
    names = list(broker.scan_iter("ditto:default:graph:*"))
    assert len(names) == 3
    assert all(most - 10_000 < broker.pttl(name) <= most for name in names)


def test_an_erased_run_is_not_recorded(app, broker, records):
    """A graph or loop that was erased after its admission gets no record, and its sender hears ERASED."""
    broker.set(Keys("default").erased_root("r"), "1", px=60_000)
    with pytest.raises(ContextError, match="ERASED"):
        records.open(opening())
    with pytest.raises(ContextError, match="ERASED"):
        app.loops.records.open(LoopOpening("r", {"name": "l", "graphs": {}}, 1, 7, 60_000, 8, 3, None, {}))
    assert broker.keys("ditto:default:[gl]*") == []


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "answers"])
def test_a_node_that_stops_before_the_end_of_its_cancelled_run_is_recorded(opened, app, raises):
    """What is at work is asked first: whoever ends the run, it is cancelled, and can be resumed."""
    opened.hand_out("r")
    begin(opened, "a")
    app.coordination.cancel_all("r")
    stopped = Stopped(stopped=True, renewed=True, resumes=0)
    if raises:
        wire = error_to_wire(Cancelled("CANCELLED", "of the node", {"node": "a"}))
        assert opened.raised("r", "a", 1, wire, stopped) == "cancelled"
    else:
        assert settle_stopped(opened, stopped).state == "cancelled"
    head = opened.head("r")
    assert (head.state, head.error) == ("cancelled", error_to_wire(Cancelled()))
    cancel_run(app, "r")
    assert opened.head("r").state == "cancelled"
    resume_run(app, "r", None)
    assert isinstance(begin(opened, "a", 2), Given)


def settle_stopped(records, stopped):
    return records.settle("r", "a", 1, encode({"status": "cancelled"}), stopped)


def test_a_node_that_is_cancelled_alone_fails_its_run(opened):
    """Nobody asked the run to stop."""
    opened.hand_out("r")
    begin(opened, "a")
    stopped = Stopped(stopped=True, renewed=True, resumes=0)
    assert opened.raised("r", "a", 1, error_to_wire(Cancelled()), stopped) == "failed"
