"""What a careless or unlucky user does to graphs: odd ids and inputs, late resumes, two scopes, erasure."""

import json
from uuid import uuid4

import pytest
import redis
from click.testing import CliRunner
from support import graph_fixtures as fixtures
from support.flows import FlowDeployment
from support.graphs import constant, execute, load
from support.graphs_extension import RAN
from support.polling import eventually

from ditto_tasks import Ditto
from ditto_tasks.cli import celery_group
from ditto_tasks.errors import Cancelled, DeadLettered, DittoError, PipelineError
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NodeType
from ditto_tasks.pipelines.graph_functions import graph_function
from ditto_tasks.pipelines.graph_plan import run_graph
from ditto_tasks.pipelines.graphs import Graph, GraphNode

WAIT_S = 60.0
running, broker, client, key = fixtures.running, fixtures.broker, fixtures.client, fixtures.key


@graph_function("here.only")
def here_only(given: object, outputs: object) -> dict[str, object]:
    """A binding that workers do not know."""
    return {"sources": []}


def node_states(client: Ditto, run: str) -> dict[str, str]:
    view = client.app.run_records.load(run)
    return {} if view is None else {node.id: node.state for node in view.nodes}


def test_a_run_whose_last_node_settled_after_its_end_is_done_once_resumed(
    client: Ditto, broker: redis.Redis, key: str
) -> None:
    """Nothing is left to run: the resumed run is done at once, with all outputs."""
    run = client.run(Graph("late end", [load("only", binding="test.wait")]), {"key": key})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    client.app.graphs.fail(
        run.id, Cancelled()
    )  # the node is not asked to stop, as if it were past all checks
    broker.set(f"test:go:{key}", 1, ex=600)
    eventually(lambda: node_states(client, run.id)["only"] == "done", WAIT_S)
    assert client.resume(run.id).get(WAIT_S).keys() == {"only"}
    assert client.app.run_records.load(run.id).state == "done"
    assert broker.llen(RAN + key) == 1


def test_a_resumed_run_keeps_its_owner_as_long_as_its_record(client: Ditto, broker: redis.Redis) -> None:
    """Whose it is and that it can be erased is known until the new deadline and beyond."""
    scope = {"sessionId": f"acme:{uuid4()}"}
    graph = Graph("owned", [constant("a"), load("bad", binding="test.fail")])
    run = client.run(graph, scope=scope, timeout_ms=1_000)
    with pytest.raises(PipelineError):
        run.get(WAIT_S)
    client.resume(run.id, timeout_ms=86_400_000)
    record_ms = broker.pttl(f"ditto:default:graph:{run.id}")
    assert record_ms > 86_400_000
    assert broker.pttl(f"ditto:default:tenant:{run.id}") >= record_ms - 5_000
    assert broker.pttl("ditto:default:runs") >= record_ms - 5_000


def test_a_refused_run_takes_nobody_elses_id(client: Ditto) -> None:
    """Whoever asks for another tenant's id is refused, and the run stays its owner's, in lists too."""
    graph = Graph("mine", [constant("a")])
    run = client.run(graph, scope={"sessionId": "ann:1"})
    run.get(WAIT_S)
    with pytest.raises(PipelineError, match="RUN_EXISTS"):
        client.run(graph, scope={"sessionId": "bob:1"}, run_id=run.id)
    assert client.app.coordination.tenant(run.id) == "ann"
    assert run.id not in [each.id for each in client.app.run_records.list(tenant="bob").runs]
    answer = client.answer({"sessionId": "ann:1"}, "what?", create=True)
    with pytest.raises(PipelineError, match="RUN_EXISTS"):
        client.answer({"sessionId": "bob:1"}, "what?", pipeline_id=answer.id)
    assert client.app.coordination.tenant(answer.id) == "ann"


@pytest.mark.parametrize(
    "run_id", ["a:outputs", "x.y", "", " ", "../a", "a" * 300, "\x1b[2J", "ü", "{a}", "a" * 128]
)
def test_an_odd_run_id_is_refused_or_works(client: Ditto, run_id: str) -> None:
    """Whatever a caller calls a run, it is a typed refusal or a run that ends."""
    try:
        run = client.run(Graph("odd", [constant("a")]), run_id=run_id)
    except DittoError as refused:
        assert refused.code == "INVALID_INPUT"  # noqa: PT017 -- either is fine
        return
    assert run.get(WAIT_S).keys() == {"a"}


def test_runs_whose_ids_begin_alike_do_not_meet(client: Ditto) -> None:
    """No run's id is the name of another run's part."""
    first = uuid4().hex
    one = client.run(Graph("one", [constant("a", "of one")]), run_id=first)
    assert one.get(WAIT_S)["a"]["items"][0]["content"] == "of one"
    for part in ("outputs", "ready", "flight"):
        try:
            two = client.run(Graph("two", [constant("b", "of two")]), run_id=f"{first}:{part}")
        except DittoError as refused:
            assert refused.code == "INVALID_INPUT"  # noqa: PT017 -- either is fine
            continue
        assert two.get(WAIT_S)["b"]["items"][0]["content"] == "of two"
    assert one.outputs().keys() == {"a"}


@pytest.mark.parametrize("given", [float("nan"), {"a": {1, 2}}, object(), {1: 2}, b"x", "\ud800", 2**80])
def test_an_input_that_is_no_json_is_refused_by_name(client: Ditto, given: object) -> None:
    """A typed error before anything is recorded, or the value as it is."""
    graph = Graph("echo", [constant("a")])
    try:
        run = client.run(graph, given)
    except DittoError as refused:
        assert refused.code in ("INVALID_INPUT", "MESSAGE_INVALID")  # noqa: PT017 -- either is fine
        return
    assert run.get(WAIT_S).keys() == {"a"}


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [load("a", "a")],
        [load("a", "b"), load("b", "a")],
        [load("a"), load("a")],
        [load("a"), load("b", "a", "a")],
        [{"id": "", "node": "CONTEXT.LOAD", "input": {"sources": []}}],
        [GraphNode("a.b", "CONTEXT.LOAD", input={"sources": []})],
        [GraphNode("a", "CONTEXT.LOAD", input={"sources": 7})],
        [GraphNode("a", "CONTEXT.LOAD", input={"sources": []}, binding="test.mix")],
        [GraphNode("a", "CONTEXT.LOAD", binding="nobody's")],
        [GraphNode("a", "MEMORY.GUESS", input={})],
        [GraphNode("a", "CONTEXT.LOAD", input={"sources": []}, options={"deadlineMs": 1})],
        [GraphNode("a", "MEMORY.SEARCH", input={"query": "q"}, scope="run")],
    ],
    ids=str,
)
def test_a_graph_that_cannot_run_cannot_be_made(nodes: list[GraphNode]) -> None:
    """The error is typed and names a path."""
    with pytest.raises(PipelineError) as caught:
        Graph("bad", nodes)
    assert caught.value.code in ("INVALID_INPUT", "UNKNOWN_NODE", "UNKNOWN_BINDING")
    assert str(caught.value.details["path"]).startswith("/nodes")


@pytest.mark.parametrize(
    "fields", [{"id": ""}, {"id": 7}, {"dependencies": "ab"}, {"more": 1}, {"input": []}]
)
def test_a_node_that_cannot_be_is_refused_by_its_field(fields: dict[str, object]) -> None:
    """Alone and within a graph the error is typed; there its path begins with the node's place."""
    wire = {"id": "a", "node": "CONTEXT.LOAD", **fields}
    with pytest.raises(PipelineError) as alone:
        GraphNode(**wire)
    with pytest.raises(PipelineError) as within:
        Graph("g", [load("first"), wire])
    assert (alone.value.code, within.value.code) == ("INVALID_INPUT", "INVALID_INPUT")
    assert within.value.details["path"] == f"/nodes/1{alone.value.details['path']}"


def test_a_binding_that_no_worker_knows_ends_the_run_by_name(client: Ditto) -> None:
    """UNKNOWN_BINDING with the node and the binding, and not a run that waits for ever."""
    run = client.run(Graph("here", [constant("a"), load("b", "a", binding="here.only")]))
    with pytest.raises(PipelineError) as caught:
        run.get(WAIT_S)
    assert (caught.value.code, caught.value.details["nodeId"]) == ("UNKNOWN_BINDING", "b")


def test_a_node_that_no_worker_can_run_ends_the_run_at_once(running: FlowDeployment) -> None:
    """A type of the sender's own that workers do not have is a dead letter; the run says at which node."""
    own = NodeType("MINE.NODE", "MINE", handlers="mine.tasks")
    with Ditto(running.settings, nodes=[own]) as client:
        run = client.run(
            Graph("mine", [constant("a"), GraphNode("mine", "MINE.NODE", dependencies=("a",), input={})])
        )
        with pytest.raises(DeadLettered) as caught:
            run.get(WAIT_S)
        assert (caught.value.code, caught.value.details["nodeId"]) == ("UNKNOWN_TASK", "mine")
        assert "-A on the application that has it" in caught.value.message
        assert node_states(client, run.id) == {"a": "done", "mine": "failed"}


@pytest.mark.parametrize("size", [300_000, 5_000_000])
def test_a_large_constant_is_kept_or_refused(client: Ditto, size: int) -> None:
    """An input of megabytes arrives whole at the node after it, or is refused by a typed error."""
    graph = Graph("large", [constant("a", "x" * size), load("b", "a")])
    try:
        run = client.run(graph)
    except DittoError as refused:
        assert refused.code in ("INVALID_INPUT", "MESSAGE_TOO_LARGE")  # noqa: PT017 -- either is fine
        return
    try:
        outputs = run.get(WAIT_S)
    except DittoError as refused:
        assert refused.code in ("INLINE_LIMIT_EXCEEDED", "RESULT_TOO_LARGE", "INVALID_INPUT")  # noqa: PT017 -- the same
        return
    assert len(outputs["a"]["items"][0]["content"]) == size


def test_a_wide_and_dense_graph_gives_what_it_gives_in_process(client: Ditto) -> None:
    """200 nodes before one, and a diamond of diamonds."""
    wide = [constant(f"w{at}", str(at)) for at in range(200)]
    diamonds = [constant("d0")]
    for at in range(10):
        diamonds += [
            load(f"l{at}", f"d{at}"),
            load(f"r{at}", f"d{at}"),
            load(f"d{at + 1}", f"l{at}", f"r{at}"),
        ]
    for nodes in ([*wide, load("all", *(node.id for node in wide))], diamonds, [constant("one")]):
        graph = Graph("shape", nodes)
        assert client.run(graph, "in").get(WAIT_S) == run_graph(graph, "in", execute)


def test_scopes_of_two_tenants_do_not_mix(client: Ditto) -> None:
    """Nodes of one graph write the run's scope and another one, each in its order."""
    own, other = f"acme:{uuid4()}", f"acme:{uuid4()}"
    second = Scope(session_id=other)
    options = {"onMissing": "create"}

    def update(name: str, where: object, text: str, *after: str) -> GraphNode:
        add = {"add": [{"id": name, "content": text}]}
        return GraphNode(name, "CONTEXT.UPDATE", dependencies=after, input=add, scope=where, options=options)

    nodes = [update("o0", "run", "own"), update("t0", second, "other")]
    for at in range(1, 6):
        nodes += [
            update(f"o{at}", "run", "own", f"o{at - 1}"),
            update(f"t{at}", second, "other", f"t{at - 1}"),
        ]
    client.run(Graph("two scopes", nodes), scope={"sessionId": own}).get(WAIT_S)
    for session, letter in ((own, "o"), (other, "t")):
        items = client.context.load(scope={"sessionId": session}).get(WAIT_S).items
        assert [item.id for item in items] == [f"{letter}{at}" for at in range(6)]


def test_an_erased_session_leaves_nothing_of_its_runs(
    running: FlowDeployment, client: Ditto, broker: redis.Redis, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erased while a node is at work: record and outputs are gone, and what ends later brings none back."""
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    session = f"acme:{uuid4()}"
    graph = Graph("erased", [constant("a", "a secret"), load("b", "a", binding="test.wait"), load("c", "b")])
    run = client.run(graph, {"key": key}, scope={"sessionId": session})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    erased = CliRunner().invoke(celery_group, ["erase", "--session", session])
    assert erased.exit_code == 0, erased.output
    broker.set(f"test:go:{key}", 1, ex=600)
    client.run(Graph("after", [constant("x")])).get(WAIT_S)  # the worker goes on
    eventually(lambda: not broker.exists(f"ditto:default:graph:{run.id}:outputs"), WAIT_S)
    kept = (":erased:", ":cancel:", ":of:root:")  # what refuses late work, and ids of tasks
    assert [name for name in broker.scan_iter(f"*{run.id}*") if not any(part in name for part in kept)] == []
    assert client.app.run_records.load(run.id) is None
    with pytest.raises(DittoError, match="ERASED"):
        client.run(graph, {"key": key}, scope={"sessionId": session})


def test_a_tool_of_a_graph_acts_once_though_it_is_sent_again(
    client: Ditto, broker: redis.Redis, key: str
) -> None:
    """The effect ledger knows the node's id: a second sending gives the first one's result."""
    call = {"id": "c1", "name": "note", "arguments": {"key": key}}
    run = client.run(Graph("acts", [GraphNode("act", "INTERACTION.ACT.TOOL", input={"call": call})]))
    outputs = run.get(WAIT_S)
    for _ in range(3):
        client.app.send_task(
            "INTERACTION.ACT.TOOL",
            kwargs={},
            task_id=f"{run.id}.act",
            root_id=run.id,
            headers={"ditto_graph": 1},
        )
    client.run(Graph("after", [constant("x")])).get(WAIT_S)
    assert run.outputs() == outputs
    assert broker.get(f"test:{key}") == "1"


def test_events_of_a_run_hold_no_content(client: Ditto) -> None:
    """Steps and states only."""
    run = client.run(Graph("quiet", [constant("a", "canary-1f"), load("b", "a")]), "canary-1f")
    run.get(WAIT_S)
    said = json.dumps([event.data for event in run.events()])
    assert '"b"' in said
    assert "canary-1f" not in said
