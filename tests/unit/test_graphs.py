"""Graphs and loops as they are made: what is refused, with its path, and what one process gives for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import FUNCTIONS, constant, execute, load, random_graph

from ditto_tasks.errors import ContextError, PipelineError
from ditto_tasks.json_values import decode
from ditto_tasks.models import from_wire
from ditto_tasks.nodes import NODES
from ditto_tasks.pipelines.graph_functions import call, graph_function
from ditto_tasks.pipelines.graph_plan import Specification, run_graph, stored_fields
from ditto_tasks.pipelines.graphs import Graph, GraphNode, check_known
from ditto_tasks.pipelines.loops import Loop, run_loop

LOAD = "CONTEXT.LOAD"


def node(**more):
    constants = {} if "binding" in more or "scope" in more else {"input": {"sources": []}}
    return {"id": "a", "node": LOAD, **constants, **more}


WRONG = [
    ([], "INVALID_INPUT", "/nodes"),
    ([node(id="")], "INVALID_INPUT", "/nodes/0/id"),
    ([node(id="a.b")], "INVALID_INPUT", "/nodes/0/id"),
    ([node(id="x" * 65)], "INVALID_INPUT", "/nodes/0/id"),
    ([node(), node()], "INVALID_INPUT", "/nodes/1/id"),
    ([node(unknown=1)], "INVALID_INPUT", "/nodes/0/unknown"),
    ([node(dependencies=["a"])], "INVALID_INPUT", "/nodes/0/dependencies/0"),
    ([node(dependencies=["b"]), node(id="b")], "INVALID_INPUT", "/nodes/0/dependencies/0"),
    ([node(), node(id="b", dependencies=["a", "a"])], "INVALID_INPUT", "/nodes/1/dependencies/1"),
    ([node(node="MEMORY.NOTHING")], "UNKNOWN_NODE", "/nodes/0/node"),
    ([node(node="BATCH.RUN")], "UNKNOWN_NODE", "/nodes/0/node"),
    ([node(binding="nobody's")], "UNKNOWN_BINDING", "/nodes/0/binding"),
    ([node(binding="test.mix", input={})], "INVALID_INPUT", "/nodes/0/input"),
    ([node(input={"sources": 3})], "INVALID_INPUT", "/nodes/0/input/sources"),
    ([node(input={"sources": [{"id": 1}]})], "INVALID_INPUT", "/nodes/0/input/sources/0/id"),
    ([node(node="MEMORY.SEARCH", input={"limit": 0, "query": "q"})], "INVALID_INPUT", "/nodes/0/input/limit"),
    ([node(node="MEMORY.SEARCH", scope="run", input={"query": 1})], "INVALID_INPUT", "/nodes/0/scope"),
    ([node(scope="another")], "INVALID_INPUT", "/nodes/0/scope"),
    ([node(scope={})], "INVALID_INPUT", "/nodes/0/scope"),
    ([node(options={"deadlineMs": 3})], "INVALID_INPUT", "/nodes/0/options/deadlineMs"),
    ([node(options={"onMissing": "create"})], "INVALID_INPUT", "/nodes/0/options"),
]


@pytest.mark.parametrize(("nodes", "code", "path"), WRONG)
def test_what_is_wrong_is_refused_with_its_path(nodes, code, path):
    """A graph that could not run is none."""
    with pytest.raises(PipelineError) as caught:
        Graph("wrong", nodes)
    assert (caught.value.code, caught.value.details["path"]) == (code, path)


@pytest.mark.parametrize("scope", ["run", {"sessionId": "s"}])
def test_a_scoped_constant_is_checked_with_its_scope(scope):
    """An UPDATE without a context is right where a scope is said, and wrong where none is."""
    change = {"add": [{"id": "a", "content": 1}]}
    assert Graph("g", [node(node="CONTEXT.UPDATE", scope=scope, input=change)])
    with pytest.raises(PipelineError, match="/nodes/0/input"):
        Graph("g", [node(node="CONTEXT.UPDATE", input=change)])


def test_a_graph_travels_as_json_and_cannot_be_changed():
    """Its wire form gives an equal one."""
    graph = Graph("g", [constant("a"), GraphNode("b", LOAD, dependencies=("a",), scope="run")])
    assert from_wire(Graph, graph.wire_form()) == graph == Graph.stored(graph.wire_form())
    with pytest.raises(ValueError, match="frozen"):
        graph.name = "h"


def test_levels_follow_the_longest_way():
    """A node stands one level below the last of its dependencies."""
    graph = Graph("g", [constant("a"), load("b", "a"), constant("c"), load("d", "c", "b")])
    assert [[node.id for node in level] for level in graph.levels()] == [["a", "c"], ["b"], ["d"]]


def test_nodes_of_an_application_are_known_to_it_alone():
    """A type outside of the domains is checked where the run is started."""
    graph = Graph("g", [GraphNode("a", "MINE.NODE")])
    with pytest.raises(PipelineError, match="UNKNOWN_NODE"):
        check_known(graph, NODES, scoped=False)


@given(st.integers(0, 10_000))
def test_a_node_waits_for_as_many_nodes_as_it_depends_on(seed):
    """The stored counts and successors are those of the graph."""
    graph = random_graph(seed)
    fields = dict(stored_fields(graph, None))
    for each in graph.nodes:
        assert fields.get(f"left:{each.id}", 0) == len(each.dependencies)
        followers = [after.id for after in graph.nodes if each.id in after.dependencies]
        assert fields.get(f"next:{each.id}", "").split() == followers


def test_a_specification_comes_back_as_it_was_stored():
    """All that a worker needs of a node, in one value."""
    each = GraphNode("a", LOAD, binding="test.mix", scope="run", options={"reply": "none"})
    stored = Specification.of(each, None)
    assert Specification.parse(decode(stored.encoded())) == stored


def test_a_binding_sees_its_dependencies_only():
    """The other outputs are none of its business, and the order is that of the declaration."""
    seen = []

    @graph_function("test.look")
    def look(given, outputs):
        seen.append((given, list(outputs)))
        return {"sources": []}

    graph = Graph(
        "g", [constant("a"), constant("b"), constant("c"), load("d", "c", "a", binding="test.look")]
    )
    run_graph(graph, {"x": 1}, execute)
    assert seen == [({"x": 1}, ["c", "a"])]


def test_an_error_in_process_names_its_node():
    """The node's own error, with its id among the details."""
    with pytest.raises(ContextError) as caught:
        run_graph(Graph("g", [load("bad", binding="run input")]), {"sources": [{"id": ""}]}, execute)
    assert caught.value.details["nodeId"] == "bad"


@pytest.mark.parametrize("answer", [None, [], {"ditto": {}}, {"scope": {"sessionId": "other"}}])
def test_a_binding_gives_an_object_of_its_nodes_scope(answer):
    """Neither options nor another scope come from a binding."""

    @graph_function("test.odd")
    def odd(given, outputs):
        return given

    specification = Specification(LOAD, binding="test.odd")
    with pytest.raises(PipelineError, match="INVALID_BINDING"):
        specification.wire(answer, {})


def test_built_in_functions():
    """The input of the run, or the output of the only dependency, as the node's input."""
    assert call("run input", {"a": 1}, {}) == {"a": 1}
    assert call("only output", None, {"x": {"b": 2}}) == {"b": 2}
    for wrong in ({}, {"x": {}, "y": {}}, {"x": 3}):
        with pytest.raises(PipelineError, match="INVALID_UPSTREAM"):
            call("only output", None, wrong)


def test_a_name_belongs_to_one_function():
    """Another function is refused under it; an extension's counts where none is registered."""
    with pytest.raises(PipelineError, match="BINDING_EXISTS"):
        graph_function("run input")(lambda _given, _outputs: {})
    theirs = {"run input": lambda *_: {"theirs": 1}, "theirs": lambda *_: {"theirs": 2}}
    assert call("run input", {}, {}, more=lambda: theirs) == {}
    assert call("theirs", {}, {}, more=lambda: theirs) == {"theirs": 2}

    def opened():
        graph_function("test.registered late")(lambda *_: {"late": 3})
        return {}

    assert call("test.registered late", {}, {}, more=opened) == {"late": 3}
    with pytest.raises(PipelineError, match="UNKNOWN_BINDING"):
        call("nobody's")


def test_a_functions_raw_error_tells_its_class_only():
    """What it says may be content."""
    with pytest.raises(PipelineError) as caught:
        call("test.fail", {}, {})
    assert (caught.value.code, "secret" in str(caught.value)) == ("BINDING_FAILED", False)


WRONG_LOOPS = [
    ({"graphs": {}}, "INVALID_INPUT", "/graphs"),
    ({"graphs": {"a": {"name": "a", "nodes": []}}}, "INVALID_INPUT", "/nodes"),
    ({"update": "nobody's"}, "UNKNOWN_BINDING", "/update"),
    ({"select": "nobody's"}, "UNKNOWN_BINDING", "/select"),
    ({"max_iterations": 0}, "INVALID_INPUT", "/maxIterations"),
]


@pytest.mark.parametrize(("more", "code", "path"), WRONG_LOOPS)
def test_what_is_wrong_in_a_loop_is_refused_with_its_path(more, code, path):
    """Its graphs are checked as graphs are."""
    given = {"graphs": {"a": Graph("a", [constant("x")])}, **FUNCTIONS, **more}
    with pytest.raises(PipelineError) as caught:
        Loop("wrong", **given)
    assert (caught.value.code, caught.value.details["path"]) == (code, path)


def test_several_graphs_need_a_selection():
    """One graph needs none."""
    graph = Graph("a", [constant("x")])
    assert Loop("one", {"a": graph}, **FUNCTIONS)
    with pytest.raises(PipelineError, match="/select"):
        Loop("two", {"a": graph, "b": graph}, **FUNCTIONS)


def test_a_loop_in_process_ends_at_its_limit():
    """Not being done in time is an error, never a result."""
    loop = Loop("l", {"a": Graph("a", [constant("x")])}, max_iterations=2, **FUNCTIONS)
    assert run_loop(loop, {"wanted": 2}, execute)["rounds"] == 2
    with pytest.raises(PipelineError, match="LOOP_LIMIT_REACHED"):
        run_loop(loop, {"wanted": 3}, execute)
