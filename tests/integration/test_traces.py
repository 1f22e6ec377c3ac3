"""Calls in OpenTelemetry: whatever a run consists of is one trace, and no span holds content."""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import baggage, context, trace
from redis import Redis
from support.flows import FlowDeployment, says, wants
from support.graphs import FUNCTIONS, constant, graph_deployment, load
from support.polling import eventually
from support.traces import Seen, TracedWorker, of_this_process, record_here

from ditto_tasks import AsyncDitto, Ditto
from ditto_tasks.errors import DittoError
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.pipelines.loops import Loop, iteration_id
from ditto_tasks.sending import BrokerError
from ditto_tasks.settings import Settings, load_settings

CANARY = "canary-5e1d"
TIMEOUT_S = 30
MODEL = {"provider": "extractive", "model": "extractive"}  # quotes
ASKED_MODEL = {"provider": "main", "model": "m"}
LEAKY = f"""
from ditto_tasks.extensions import Extension

class Selector:
    def select(self, request, execution):
        raise RuntimeError("{CANARY} from a service")

def create(settings):
    return Extension(context={{"selector": Selector()}})
"""


class Traced:
    """A deployment whose worker and whose clients trace."""

    def __init__(self, deployment: FlowDeployment, worker: TracedWorker, settings: Settings) -> None:
        self.provider = deployment.provider
        self.broker_url = deployment.server.redis_url(0)
        self.worker = worker
        self.settings = settings

    def of_trace(self, trace_id: str) -> list[Seen]:
        """The spans of one trace, from all processes, without those of the worker's Redis client."""
        spans = (*of_this_process(), *self.worker.spans())
        return [span for span in spans if span.trace == trace_id and not span.of_redis]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    record_here()
    folder = tmp_path_factory.mktemp("extension")
    (folder / "leaky_extension.py").write_text(LEAKY, "utf-8")
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1]), str(folder)]
    with graph_deployment() as deployment:
        names = f"{deployment.variables['DITTO_EXTENSIONS']},leaky_extension:create"
        memory = f"sqlite:///{folder / 'memory.db'}"
        env = {**deployment.variables, "DITTO_EXTENSIONS": names, "PYTHONPATH": ":".join(paths)}
        env["DITTO_WORKER_MEMORY_URL"] = memory
        settings = load_settings(None, {**deployment.variables, "DITTO_OTEL": "true"})
        with TracedWorker(deployment.server, env=env) as worker:
            yield Traced(deployment, worker, settings)


def one_tree(spans: list[Seen]) -> bool:
    """True if all hang together below one of them."""
    known = {span.id for span in spans}
    return [span.parent in known for span in spans].count(False) == 1


def whole(traced: Traced, trace_id: str, *names: str) -> list[Seen]:
    """The spans of a trace, once those with these names have arrived; one tree."""

    def arrived() -> bool:
        spans = traced.of_trace(trace_id)
        return set(names) <= {span.name for span in spans} and one_tree(spans)

    eventually(arrived, TIMEOUT_S)
    return traced.of_trace(trace_id)


def test_an_answer_is_one_trace_from_the_client_to_the_chords_body(traced: Traced) -> None:
    """The client's span, both searches, the chord's body and all later steps are one tree."""
    scope = {"sessionId": f"acme:{uuid.uuid4()}"}
    with Ditto(traced.settings) as ditto, trace.get_tracer("app").start_as_current_span("request") as span:
        trace_id = f"0x{trace.format_trace_id(span.get_span_context().trace_id)}"
        searches = [{"input": {"limit": 1}}, {"input": {"limit": 2}}]
        pending = ditto.answer(scope, "what?", create=True, searches=searches, model=MODEL)
        pending.get(TIMEOUT_S)
    spans = whole(traced, trace_id, "request", "INFER.REASONING.SAMPLE")
    eventually(lambda: len([s for s in traced.of_trace(trace_id) if s.task == f"{pending.id}.turn"]) == 2, 10)
    spans = traced.of_trace(trace_id)
    steps = ["search-0", "search-1", "update", "select", "sample", "turn"]
    tasks = [span.task for span in spans]
    assert {step: tasks.count(f"{pending.id}.{step}") for step in steps} == dict.fromkeys(steps, 2)
    assert len(spans) == 2 + 2 * len(steps)  # the request, the start, and each step's sending and running


def test_an_answer_without_a_span_around_it_is_one_trace_too(traced: Traced) -> None:
    """A caller who traces nothing himself gets one trace a run, not one a message."""
    with Ditto(traced.settings) as ditto:
        pending = ditto.answer({"sessionId": f"acme:{uuid.uuid4()}"}, "what?", create=True, model=MODEL)
        pending.get(TIMEOUT_S)
    whole(traced, start_of(pending.id).trace, "start answer", "MEMORY.SEARCH", "INFER.REASONING.SAMPLE")


def test_a_flow_is_one_trace(traced: Traced) -> None:
    """Steps of react that workers send belong to the trace of its start."""
    traced.provider.then(wants(("a", "upper", {"text": CANARY})), says(f"done {CANARY}"))
    tool = {"name": "upper", "inputSchema": {"type": "object"}}
    with Ditto(traced.settings) as ditto:
        asked = [{"role": "user", "content": f"please {CANARY}"}]
        pending = ditto.react(messages=asked, model=ASKED_MODEL, actions=[tool])
        pending.get(TIMEOUT_S)
    start = start_of(pending.id)
    spans = whole(traced, start.trace, "start react", "INTERACTION.ACT.TOOL")
    eventually(lambda: len(samples_in(traced.of_trace(start.trace))) == 2, TIMEOUT_S)
    assert {span.attributes["ditto.root_id"] for span in samples_in(spans)} == {pending.id}


def start_of(run: str) -> Seen:
    """The span of a run's start."""
    [start] = [span for span in of_this_process() if span.attributes.get("ditto.run_id") == run]
    return start


def test_a_graph_is_one_trace(traced: Traced) -> None:
    """All of its nodes, scoped ones among them, belong to the trace of its start."""
    add = {"add": [{"id": "a", "content": CANARY}]}
    keep = GraphNode(
        "keep", "CONTEXT.UPDATE", dependencies=("a",), input=add, scope="run", options={"onMissing": "create"}
    )
    graph = Graph(
        "traced", [constant("a", CANARY), load("b", "a"), load("c", "a"), load("d", "b", "c"), keep]
    )
    with Ditto(traced.settings) as ditto:
        run = ditto.run(graph, CANARY, scope={"sessionId": f"acme:{uuid.uuid4()}"})
        run.get(TIMEOUT_S)
    trace_id = start_of(run.id).trace
    eventually(lambda: len(traced.of_trace(trace_id)) == 1 + 2 * len(graph.nodes), TIMEOUT_S)
    spans = whole(traced, trace_id, "start graph", "CONTEXT.UPDATE")
    assert {span.task for span in spans if span.task} == {f"{run.id}.{node.id}" for node in graph.nodes}


def test_a_loop_is_one_trace(traced: Traced) -> None:
    """The nodes of every iteration belong to it, also those that are handed out with no task at work."""
    loop = Loop("traced", {"only": Graph("only", [constant("a")])}, **FUNCTIONS)
    with Ditto(traced.settings) as ditto:
        run = ditto.run(loop, {"wanted": 3})
        run.get(TIMEOUT_S)
        start = start_of(run.id)
        eventually(lambda: len(traced.of_trace(start.trace)) == 1 + 2 * 3, TIMEOUT_S)
        whole(traced, start.trace, "start loop")
        before = len(of_this_process())
        ditto.app.send_task("MEMORY.SEARCH", kwargs={"query": "x"}, root_id=iteration_id(run.id, 1))
        assert [span.parent for span in of_this_process()[before:]] == [start.id]


def test_an_event_loops_client_goes_on_with_the_callers_trace(traced: Traced) -> None:
    """What is published on the client's own thread belongs to the span of the coroutine that called."""

    async def search() -> str:
        async with AsyncDitto(traced.settings) as ditto:
            with trace.get_tracer("app").start_as_current_span("coroutine") as span:
                found = ditto.memory.search(query="x")
            await found.get(TIMEOUT_S)
            return f"0x{trace.format_trace_id(span.get_span_context().trace_id)}"

    assert len(whole(traced, asyncio.run(search()), "coroutine", "MEMORY.SEARCH")) == 3


def test_what_is_sent_again_belongs_to_the_runs_trace(traced: Traced) -> None:
    """The owner of a shard that sends a run's steps again does so within the run's trace."""
    with Ditto(traced.settings) as ditto:
        token = context.attach(baggage.set_baggage("user", CANARY))
        pending = ditto.answer({"sessionId": f"acme:{uuid.uuid4()}"}, "what?", create=True, model=MODEL)
        context.detach(token)
        pending.get(TIMEOUT_S)
        with ditto.app.coordination.clients() as client:
            kept = client.get(f"ditto:default:trace:{pending.id}")
        assert b"traceparent" in kept
        assert CANARY.encode() not in kept  # baggage
        record = ditto.app.records.load(pending.id)
        assert record is not None
        before = len(of_this_process())
        ditto.app._resend(record)
        sent = of_this_process()[before:]
    start = start_of(pending.id)
    assert {span.parent for span in sent} == {start.id}
    assert "send INFER.REASONING.SAMPLE" not in {span.name for span in sent}  # it was not needed any more


def test_a_resumed_run_is_traced_as_long_as_its_record(traced: Traced) -> None:
    """What is sent again a day after the start still finds the trace."""
    with Ditto(traced.settings) as ditto:
        run = ditto.run(Graph("bad", [load("bad", binding="test.fail")]), {}, timeout_ms=1_000)
        with pytest.raises(DittoError):
            run.get(TIMEOUT_S)
        ditto.resume(run.id, timeout_ms=86_400_000)
        keys = Keys(ditto.app.settings.connections.deployment)
        with Redis.from_url(traced.broker_url) as broker:
            assert broker.pttl(keys.trace(run.id)) >= broker.pttl(keys.graph(run.id)) - 5_000


def test_no_span_holds_content(traced: Traced) -> None:
    """Neither a call, nor its result, nor an error's text or traceback is in what is exported."""
    scope = {"sessionId": f"acme:{CANARY}-{uuid.uuid4()}"}
    with Ditto(traced.settings) as ditto:
        item = {"id": f"{CANARY}-id", "content": CANARY, "metadata": {CANARY: CANARY}}
        ditto.context.update(scope=scope, add=[item], ditto={"onMissing": "create"}).get(TIMEOUT_S)
        ditto.answer(scope, CANARY, model=MODEL).get(TIMEOUT_S)
        failed = [
            ditto.context.update(scope=scope, add=[item], expected_version=CANARY),
            ditto.context.select(context={"items": [item]}, purpose="infer", strategy=LEAKS),
        ]
        for pending in failed:
            with pytest.raises(DittoError):
                pending.get(TIMEOUT_S)
    ends = {pending.id for pending in failed}
    eventually(lambda: len([s for s in traced.worker.spans() if s.task in ends]) == 2, TIMEOUT_S)
    codes = {span.attributes.get("error.type") for span in traced.worker.spans() if span.task in ends}
    assert codes == {"STATE_CONFLICT", "SERVICE_ERROR"}
    spans = [*of_this_process(), *traced.worker.spans()]
    assert any(span.of_redis for span in spans)
    assert [span.name for span in spans if CANARY in span.raw] == []


def test_children_of_a_worker_belong_to_the_trace(traced: Traced) -> None:
    """With processes for a pool each child exports its own spans, and a graph is one trace all the same."""
    graph = Graph("forked", [constant("a"), load("b", "a"), load("c", "a"), load("d", "b", "c")])
    with graph_deployment() as deployment:
        settings = load_settings(None, {**deployment.variables, "DITTO_OTEL": "true"})
        pool = ["-P", "processes", "-c", "2"]
        with (
            TracedWorker(deployment.server, env=deployment.variables, args=pool) as worker,
            Ditto(settings) as ditto,
        ):
            run = ditto.run(graph)
            run.get(TIMEOUT_S)
            forked = Traced(deployment, worker, settings)
            trace_id = start_of(run.id).trace
            eventually(lambda: len(forked.of_trace(trace_id)) == 1 + 2 * len(graph.nodes), TIMEOUT_S)
            whole(forked, trace_id, "start graph")


def test_a_failed_sending_tells_its_kind_and_no_address() -> None:
    """Where the broker is away the span is an error without the driver's text, which has the address."""
    record_here()
    variables = {"DITTO_OTEL": "true", "DITTO_BROKER_URL": "redis://127.0.0.1:1/0"}
    with Ditto(load_settings(None, variables)) as ditto, pytest.raises(BrokerError):
        ditto.memory.search(query="x")
    span = of_this_process()[-1]
    assert (span.name, span.attributes["error.type"]) == ("send MEMORY.SEARCH", "BROKER_UNAVAILABLE")
    assert "127.0.0.1" not in span.raw


def samples_in(spans: list[Seen]) -> list[Seen]:
    return [span for span in spans if span.name == "INFER.REASONING.SAMPLE"]


LEAKS = {"kind": "provider", "name": "any"}
