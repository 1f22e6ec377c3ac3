"""What is stored of a graph for its run, and what the graph gives when one process runs it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, cast

from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.pipelines.graph_functions import MoreFunctions, call, no_more
from ditto_tasks.pipelines.graphs import RUN_SCOPE, Graph, GraphNode

NODE_ID: Final = "nodeId"  # the detail of an error that names the node

Execute: TypeAlias = Callable[[str, JsonObject], JsonValue]


class Specification(NamedTuple):
    """How a node is called: what its message and its worker need of the graph."""

    node: str
    dependencies: tuple[str, ...] = ()
    binding: str | None = None
    input: JsonObject | None = None
    scope: JsonObject | None = None
    options: JsonObject = {}  # noqa: RUF012 -- a tuple's default, never written

    @classmethod
    def of(cls, node: GraphNode, scope: Scope | None) -> Specification:
        """The specification of a graph's node in a run of this scope."""
        own = scope if node.scope == RUN_SCOPE else node.scope
        where = None if own is None else cast(JsonObject, to_wire(own))
        return cls(node.node, node.dependencies, node.binding, node.input, where, node.options)

    @classmethod
    def parse(cls, wire: JsonValue) -> Specification:
        """The specification that `encoded` gave."""
        node, dependencies, binding, constant, scope, options = cast("list[JsonValue]", wire)
        return cls(
            cast(str, node),
            tuple(cast("list[str]", dependencies)),
            cast("str | None", binding),
            cast("JsonObject | None", constant),
            cast("JsonObject | None", scope),
            cast(JsonObject, options),
        )

    def encoded(self) -> bytes:
        return encode([self.node, list(self.dependencies), *self[2:]])

    def wire(
        self, given: JsonValue, outputs: Mapping[str, JsonValue], more: MoreFunctions = no_more
    ) -> JsonObject:
        """The node's input, from the run's input and the outputs of its dependencies alone."""
        if self.binding is None:
            wire = self.input or {}
        else:
            wire = cast(JsonObject, call(self.binding, given, outputs, more=more))
        if not isinstance(wire, dict) or "ditto" in wire or wire.get("scope", self.scope) != self.scope:
            message = "a binding gives an object without options, and of no other scope than the node's"
            raise PipelineError("INVALID_BINDING", message, {"binding": self.binding})
        return dict(wire) if self.scope is None else {**wire, "scope": self.scope}


def stored_fields(graph: Graph, scope: Scope | None) -> Iterator[tuple[str, str | bytes | int]]:
    """The fields of a run's record that follow from its graph."""
    after: dict[str, list[str]] = defaultdict(list)
    for node in graph.nodes:
        for before in node.dependencies:
            after[before].append(node.id)
    yield "graph", graph.name
    yield "scope", encode(None if scope is None else to_wire(scope))
    yield "todo", len(graph.nodes)
    yield "total", len(graph.nodes)
    yield "plan", encode([[node.id, node.node, list(node.dependencies)] for node in graph.nodes])
    for node in graph.nodes:
        yield f"spec:{node.id}", Specification.of(node, scope).encoded()
        if node.dependencies:
            yield f"deps:{node.id}", " ".join(node.dependencies)
            yield f"left:{node.id}", len(node.dependencies)
        if after[node.id]:
            yield f"next:{node.id}", " ".join(after[node.id])


def run_graph(
    graph: Graph, given: JsonValue, execute: Execute, *, scope: Scope | None = None
) -> dict[str, JsonValue]:
    """Run a graph in this process, node after node as declared; what it gives is what a run gives.

    `execute(node type, input)` gives a node's output. The first error ends it, and its details name the node.
    """
    outputs: dict[str, JsonValue] = {}
    for node in graph.nodes:
        specification = Specification.of(node, scope)
        try:
            wire = specification.wire(given, {before: outputs[before] for before in node.dependencies})
            outputs[node.id] = execute(node.node, wire)
        except DittoError as error:
            raise named(error, node.id) from error
    return outputs


def named(error: DittoError, node: str) -> DittoError:
    """The error with the node that raised it among its details."""
    return type(error)(error.code, error.message, {**(error.details or {}), NODE_ID: node})
