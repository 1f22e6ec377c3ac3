"""A deployment for tests of graphs and loops, graphs at random, and the same graphs in this process."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import support.graphs_extension  # noqa: F401 -- registers the functions in this process
from ditto_tasks.context import ContextNodes
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from support.flows import FlowDeployment, flow_deployment
from support.flows_extension import NAME as ACTING
from support.graphs_extension import NAME as COUNTING

LOAD = "CONTEXT.LOAD"
FUNCTIONS = {"bind": "test.first item", "update": "test.count", "done": "test.enough"}  # of loops
KINDS = [(LOAD, "test.mix"), ("CONTEXT.UPDATE", "test.both"), ("CONTEXT.SELECT", "test.choose")]


@contextmanager
def graph_deployment() -> Iterator[FlowDeployment]:
    """A deployment without workers; what they are given knows the functions and tools of tests."""
    with flow_deployment() as made:
        variables = {**made.variables, "DITTO_EXTENSIONS": f"{ACTING},{COUNTING}"}
        yield replace(made, variables=variables)


def load(node: str, *after: str, binding: str = "test.mix") -> GraphNode:
    """A node that loads what its binding gives."""
    return GraphNode(node, LOAD, dependencies=after, binding=binding)


def constant(node: str, text: str = "x", *after: str) -> GraphNode:
    """A node with a constant input."""
    sources: list[JsonValue] = [{"id": "seen", "content": text}]
    return GraphNode(node, LOAD, dependencies=after, input={"sources": sources})


def random_graph(seed: int, *, most: int = 14) -> Graph:
    """A graph of up to so many nodes of three kinds, with up to four dependencies each."""
    chance = random.Random(seed)  # noqa: S311 -- a test's dice
    nodes: list[GraphNode] = []
    for at in range(chance.randint(2, most)):
        before = [node.id for node in nodes]
        after = tuple(chance.sample(before, chance.randint(0, min(4, len(before)))))
        kind, binding = chance.choice(KINDS)
        if not after and chance.random() < 0.3:
            nodes.append(constant(f"n{at}", f"c{seed}"))
        else:
            nodes.append(GraphNode(f"n{at}", kind, dependencies=after, binding=binding))
    return Graph(f"random {seed}", nodes)


def layered_graph(levels: int, width: int, *, binding: str = "test.mix", fan_in: int = 2) -> Graph:
    """Levels of nodes, each of which depends on some of the level before."""
    nodes = [
        load(
            f"l{level}n{at}",
            *(f"l{level - 1}n{(at + step) % width}" for step in range(fan_in if level else 0)),
            binding=binding,
        )
        for level in range(levels)
        for at in range(width)
    ]
    return Graph("layers", nodes)


def execute(node: str, wire: JsonObject) -> JsonValue:
    """A CONTEXT node in this process."""
    return to_wire(ContextNodes().execute(node, wire))
