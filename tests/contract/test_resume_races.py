"""A run that is resumed while another process still ends it, or tells of the end: the older attempt loses."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import ClassVar

import pytest
import redis
from support.graphs import FUNCTIONS, constant
from support.workers import RESULT_DB, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.client.graphs import cancel_run, resume_run, run_call, start_run
from ditto_tasks.context import ContextNodes
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.keys import Keys
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.base import EndStore
from ditto_tasks.pipelines.graph_functions import no_more
from ditto_tasks.pipelines.graph_records import GraphRecords
from ditto_tasks.pipelines.graph_runs import Delivery, GraphRuns
from ditto_tasks.pipelines.graph_values import Head, Stopped
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loop_records import LoopHead, LoopRecords
from ditto_tasks.pipelines.loop_runs import LoopRuns
from ditto_tasks.pipelines.loops import Loop, iteration_id
from ditto_tasks.redis_replies import clock_ms

RUN, ITERATION = "r", "r-i0"
KEYS = Keys("default")
GRAPH = Graph("g", [constant("a")])
LOOP = Loop("l", {"g": GRAPH}, **FUNCTIONS)
LATER_MS = 600_000

Steps = Callable[[], object]


@pytest.fixture
def app(server: EmbeddedServer) -> Iterator[DittoCelery]:
    """An application without workers: what it publishes waits in queues."""
    with closing(client_app(server)) as opened:
        yield opened


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.redis_url(0), decode_responses=True) as client:
        yield client


@pytest.fixture(params=[GRAPH, LOOP], ids=["graph", "loop"])
def run(app: DittoCelery, request: pytest.FixtureRequest) -> "Run":
    return Run(app, request.param)


class Run:
    """A run of either kind, and what is done to it."""

    def __init__(self, app: DittoCelery, what: Graph | Loop) -> None:
        self.app = app
        self.is_graph = isinstance(what, Graph)
        start_run(app, run_call(what, {"wanted": 1}, {"run_id": RUN}))

    def runs(self, answers: Callable[[], EndStore]) -> GraphRuns | LoopRuns:
        """The same runs as another process has them, with its own way to the results."""
        if self.is_graph:
            return GraphRuns(self.app.graphs.records, answers, lambda _: None, no_more, lambda _: None)
        return LoopRuns(self.app.loops.records, self.app.graphs, answers, no_more, lambda _: None)

    def end(self, code: str) -> None:
        """Record an end, of which nobody tells."""
        error: JsonObject = {"kind": "PipelineError", "code": code, "message": "m", "details": {}}
        if self.is_graph:
            assert self.app.graphs.records.end(RUN, "failed", error)
            return
        seen = self.app.loops.records.head(RUN)
        assert seen is not None
        assert self.app.loops.records.end(seen, "failed", error)

    def announce(self) -> None:
        (self.app.graphs if self.is_graph else self.app.loops).announce(RUN)

    def told(self) -> str | None:
        """The code of the failure that stands for the run; None where no end does."""
        result = self.app.AsyncResult(RUN)
        assert result.state in ("PENDING", "FAILURE")
        return result.result.code if result.state == "FAILURE" else None

    @property
    def records(self) -> GraphRecords | LoopRecords:
        return self.app.graphs.records if self.is_graph else self.app.loops.records

    @property
    def head(self) -> Head | LoopHead:
        found = self.records.head(RUN)
        assert found is not None
        return found

    def tracked(self) -> list[str]:
        """The runs of all shards that somebody still looks after."""
        shards = range(self.app.settings.runtime.shards.count)
        return [each for shard in shards for each in self.records.tracked(shard)]

    def resume(self) -> None:
        resume_run(self.app, RUN, LATER_MS)


def after(app: DittoCelery, steps: Steps) -> Callable[[], EndStore]:
    """The way to the results of a process that is slow: others take these steps before it is there."""
    left = [steps]

    def answers() -> EndStore:
        if left:
            left.pop()()
        return app.backend

    return answers


def test_an_end_that_is_told_while_its_run_is_resumed_is_not_stored(run: Run, server: EmbeddedServer) -> None:
    """Read before the resume and told after it: it stands nowhere, and no waiter hears of it."""
    run.end("OLD")
    with redis.Redis.from_url(server.redis_url(RESULT_DB)) as results, closing(results.pubsub()) as heard:
        heard.subscribe(f"celery-task-meta-{RUN}")
        assert heard.get_message(timeout=5)["type"] == "subscribe"
        run.runs(after(run.app, run.resume)).announce(RUN)
        results.publish(f"celery-task-meta-{RUN}", "last")
        assert heard.get_message(timeout=5)["data"] == b"last"
    assert run.told() is None
    assert run.tracked() == [RUN]


def test_an_older_end_does_not_replace_a_newer_one(run: Run) -> None:
    """Though it is told last."""

    def meanwhile() -> None:
        run.resume()
        run.end("NEW")
        run.announce()

    run.end("OLD")
    run.runs(after(run.app, meanwhile)).announce(RUN)
    assert run.told() == "NEW"


def test_whoever_tells_an_older_end_takes_no_newer_one_off_the_list(run: Run) -> None:
    """The newer one is not told yet: who ended the run may have died."""

    def meanwhile() -> None:
        run.resume()
        run.end("NEW")

    run.end("OLD")
    run.runs(after(run.app, meanwhile)).announce(RUN)
    assert run.told() is None
    assert run.tracked() == [RUN]


def test_a_resume_removes_the_older_end_alone(run: Run) -> None:
    """A run that ends again before its resume is through keeps that end."""

    def meanwhile() -> None:
        run.end("NEW")
        run.announce()

    run.end("OLD")
    run.announce()
    run.runs(after(run.app, meanwhile)).resume(RUN, LATER_MS, 1)
    assert run.told() == "NEW"
    assert run.tracked() == []


def test_a_resume_that_broke_off_is_made_good_by_the_next(run: Run) -> None:
    """The run goes on and its old end still stands: resumed again it does not."""

    def dies() -> None:
        raise ConnectionError

    run.end("OLD")
    run.announce()
    with pytest.raises(ConnectionError):
        run.runs(after(run.app, dies)).resume(RUN, LATER_MS, 1)
    assert run.told() == "OLD"
    run.resume()
    assert run.told() is None


def test_only_the_newest_end_is_noted_as_told(run: Run) -> None:
    """Whoever told of the one before the resume takes nothing off the list."""
    run.end("OLD")
    run.resume()
    run.end("NEW")
    run.records.announced(RUN, 0)
    assert run.tracked() == [RUN]
    run.records.announced(RUN, 1)
    assert run.tracked() == []


def test_who_saw_the_same_end_resumes_once(run: Run) -> None:
    """The second of two comes when the run has ended again: that end was not what it was asked to mend."""
    run.end("OLD")
    run.records.resume(RUN, LATER_MS, 1)
    run.end("NEW")
    run.records.resume(RUN, LATER_MS, 1)
    assert (run.head.state, run.head.resumes) == ("failed", 1)


def test_what_is_running_is_not_resumed(run: Run) -> None:
    """It stays as it is."""
    before = run.head
    run.resume()
    assert (run.head.state, run.head.resumes) == ("running", 0) == (before.state, before.resumes)


def test_a_run_can_be_resumed_again_and_again(run: Run) -> None:
    """Each end is told, and none stands after the resume."""
    for code in ("FIRST", "SECOND", "THIRD"):
        run.end(code)
        run.announce()
        assert run.told() == code
        assert run.tracked() == []
        run.resume()
        assert run.told() is None
        assert run.tracked() == [RUN]


def test_an_end_that_is_not_stored_is_told_later(run: Run, server: EmbeddedServer) -> None:
    """An earlier run of this id was resumed oftener, and its record is gone: the new one stays listed."""
    with redis.Redis.from_url(server.redis_url(RESULT_DB)) as results:
        results.set(KEYS.resumes(RUN), 3, ex=60)
        run.end("END")
        run.announce()
        assert (run.told(), run.tracked()) == (None, [RUN])
        results.delete(KEYS.resumes(RUN))
    run.announce()
    assert (run.told(), run.tracked()) == ("END", [])


class SlowGraphs(GraphRuns):
    """Fails a run after others have taken some steps."""

    def __init__(self, app: DittoCelery, steps: Steps) -> None:
        super().__init__(app.graphs.records, lambda: app.backend, lambda _: None, no_more, app.loops.go_on)
        self._steps = steps

    def fail(self, run: str, error: DittoError, *, resumes: int | None = None) -> None:
        self._steps()
        super().fail(run, error, resumes=resumes)


def slow_loops(app: DittoCelery, steps: Steps) -> LoopRuns:
    """Loops of another process, which takes its time between a loop's end and that of its iteration."""
    graphs = SlowGraphs(app, steps)
    return LoopRuns(app.loops.records, graphs, lambda: app.backend, no_more, lambda _: None)


def state_of(app: DittoCelery) -> tuple[str, str]:
    """The state of the loop and of its first iteration."""
    loop, iteration = app.loops.records.head(RUN), app.graphs.records.head(ITERATION)
    assert loop is not None
    assert iteration is not None
    return loop.state, iteration.state


def compute(_node: JsonObject) -> JsonValue:
    return to_wire(ContextNodes().execute("CONTEXT.LOAD", {"sources": [{"id": "x", "content": "x"}]}))


def ends_well(app: DittoCelery) -> bool:
    """Whether the loop is done once its node has run."""
    app.graphs.run_node(Delivery(ITERATION, "a", "CONTEXT", redelivered=False), compute)
    return app.AsyncResult(RUN).state == "SUCCESS"


@pytest.fixture
def loop(app: DittoCelery) -> Run:
    return Run(app, LOOP)


def test_a_loop_that_is_resumed_while_it_is_failed_goes_on(loop: Run, broker: "redis.Redis") -> None:
    """Its time was up. Its iteration is to be ended with it: that comes too late, and it has the new time."""
    app = loop.app

    def meanwhile() -> None:
        loop.resume()
        assert int(broker.hget(KEYS.graph(ITERATION), "deadline") or 0) > clock_ms(broker.time())

    broker.hset(KEYS.loop(RUN), "deadline", clock_ms(broker.time()))
    broker.hset(KEYS.graph(ITERATION), "deadline", clock_ms(broker.time()))
    slow_loops(app, meanwhile).tend(RUN)
    assert state_of(app) == ("running", "running")
    assert loop.told() is None
    assert ends_well(app)


def test_a_loop_that_is_resumed_while_it_is_cancelled_goes_on(
    loop: Run, server: EmbeddedServer, broker: "redis.Redis"
) -> None:
    """Neither its iteration's end nor the request to stop comes after the resume."""
    with closing(client_app(server)) as other:
        other.loops = slow_loops(loop.app, loop.resume)
        cancel_run(other, RUN)
    assert not broker.exists(KEYS.cancel_root(ITERATION))
    assert state_of(loop.app) == ("running", "running")
    assert loop.told() is None
    assert ends_well(loop.app)


def test_a_loop_whose_resume_broke_off_is_gone_on_with_by_a_sweep(loop: Run, broker: "redis.Redis") -> None:
    """Its record alone says that it was resumed: its iteration, which had ended with it, is resumed, too."""
    app = loop.app
    seen = app.loops.records.head(RUN)
    assert seen is not None
    app.loops.fail(seen, PipelineError("OLD", "m"))
    assert state_of(app) == ("failed", "failed")
    app.loops.records.resume(RUN, LATER_MS, 1)
    app.loops.tend(RUN)
    assert state_of(app) == ("running", "running")
    assert broker.hget(KEYS.graph(ITERATION), "resumes") == "1"
    assert ends_well(app)


def test_a_loop_ends_as_it_was_seen_and_not_otherwise(loop: Run) -> None:
    """Whoever looked at it before a resume, or before it went on to the next iteration, ends nothing."""
    records = loop.app.loops.records
    first = records.head(RUN)
    records.step(RUN, 0, {"wanted": 2}, done=False)
    second = records.head(RUN)
    assert first is not None
    assert second is not None
    assert not records.end(first, "failed", {})
    assert records.end(second, "failed", {})
    records.resume(RUN, LATER_MS, 1)
    assert not records.end(second, "failed", {})


def test_an_iteration_that_begins_after_a_resume_is_as_new_as_its_loop(loop: Run) -> None:
    """Nobody takes it for one of the time before."""
    app = loop.app
    app.loops.records.step(RUN, 0, {"wanted": 2}, done=False)
    loop.end("OLD")
    loop.resume()
    begun = app.graphs.records.head(iteration_id(RUN, 1))
    assert begun is not None
    assert (begun.state, begun.resumes) == ("running", 1)


class SlowRecords(GraphRecords):
    """Tells how a run stands after others have taken some steps."""

    steps: ClassVar[list[Steps]] = []

    def head(self, run: str) -> Head | None:
        seen = super().head(run)
        if self.steps:
            self.steps.pop()()
        return seen


def test_an_iterations_outputs_are_taken_in_once(app: DittoCelery) -> None:
    """A process that saw it done finds that the loop has gone on, and takes them for no other iteration's."""
    start_run(app, run_call(LOOP, {"wanted": 3}, {"run_id": RUN}))
    records = app.graphs.records
    records.begin(ITERATION, "a", 1, redelivered=False, quiet_ms=LATER_MS)
    records.settle(ITERATION, "a", 1, encode(compute({})), Stopped(stopped=False, renewed=False, resumes=0))
    slow = SlowRecords(records.deployment, records.clients, records.ttl_ms)
    slow.steps.append(lambda: app.loops.go_on(RUN))
    graphs = GraphRuns(slow, lambda: app.backend, lambda _: None, no_more, lambda _: None)
    LoopRuns(app.loops.records, graphs, lambda: app.backend, no_more, lambda _: None).go_on(RUN)
    record = app.loops.records.load(RUN)
    assert record is not None
    assert (record.head.iteration, record.value["rounds"]) == (1, 1)


def test_an_iteration_that_ended_before_its_loop_is_taken_in_as_it_is(loop: Run) -> None:
    """Done is done: resumed, the loop repeats nothing."""
    app = loop.app
    loop.end("OLD")
    app.graphs.run_node(Delivery(ITERATION, "a", "CONTEXT", redelivered=False), compute)
    assert state_of(app) == ("failed", "done")
    loop.resume()
    assert app.AsyncResult(RUN).state == "SUCCESS"
