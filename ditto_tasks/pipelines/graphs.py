"""Graphs of nodes: an immutable plan, checked when it is made, that travels as JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, cast

from pydantic import Field, ValidationError, model_validator

from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, pointer
from ditto_tasks.models import JsonMap, NonEmptyText, Scope, WireModel, from_wire, invalid_input
from ditto_tasks.nodes import CONTEXT, DOMAIN_QUEUES, NODES, NodeTable, NodeType
from ditto_tasks.pipelines.graph_functions import is_known
from ditto_tasks.task import OPTIONS_KEY, parse_options

MAX_NODES: Final = 10_000
RUN_SCOPE: Final = "run"
ANY_SCOPE: Final[JsonObject] = {"sessionId": "any"}  # stands for the run's while a constant input is checked
OWN_OPTIONS: Final = frozenset({"operationId", "deadlineMs", "bind", "tenant"})  # the run decides these

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # no dot: that divides the run from the node in task ids

NodeScope: TypeAlias = Scope | Literal["run"]


class GraphNode(WireModel):
    """One node of a graph. `binding` makes its input from the run's and its dependencies' outputs; without
    one its input is the constant `input`.

    A node that works on stored state says in `scope` on whose: the run's, or a certain one. `options` are
    the task's.
    """

    id: NonEmptyText
    node: NonEmptyText
    dependencies: tuple[NonEmptyText, ...] = ()
    binding: NonEmptyText | None = None
    input: JsonMap | None = None
    scope: NodeScope | None = None
    options: JsonMap = Field(default_factory=dict)

    def __init__(self, id: str = "", node: str = "", **more: Any) -> None:  # noqa: A002 -- the field's name; any field
        fields: dict[str, Any] = {"id": id, "node": node, **more}
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            raise invalid_input(problem, fields, PipelineError) from None


class Graph(WireModel):
    """Nodes in the order of their declaration; a node depends on earlier ones only.

    Raises PipelineError INVALID_INPUT, UNKNOWN_NODE or UNKNOWN_BINDING, whose details name the path.
    """

    name: NonEmptyText
    nodes: Annotated[tuple[GraphNode, ...], Field(min_length=1, max_length=MAX_NODES)]

    def __init__(self, name: str = "", nodes: Iterable[GraphNode | JsonObject] = ()) -> None:
        made = tuple(_made(node, at) for at, node in enumerate(nodes))
        fields: dict[str, Any] = {"name": name, "nodes": made}  # as pydantic's own takes them
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            raise invalid_input(problem, fields, PipelineError) from None

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        declared: set[str] = set()
        for at, node in enumerate(self.nodes):
            path = pointer("nodes", at)
            _check_place(node, declared, path)
            _check_call(node, path)
            declared.add(node.id)
        return self

    @classmethod
    def stored(cls, wire: JsonObject) -> Graph:
        """A graph that was checked where it was made; this process need not know its functions."""
        nodes = cast("list[JsonValue]", wire["nodes"])
        return cls.assemble(
            {"name": wire["name"], "nodes": tuple(from_wire(GraphNode, each) for each in nodes)}
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The nodes' ids in the order of their declaration."""
        return tuple(node.id for node in self.nodes)

    def levels(self) -> list[list[GraphNode]]:
        """The nodes by the longest way to them: those of a level depend on earlier levels only."""
        depth: dict[str, int] = {}
        levels: list[list[GraphNode]] = []
        for node in self.nodes:
            level = max((depth[before] + 1 for before in node.dependencies), default=0)
            depth[node.id] = level
            if level == len(levels):
                levels.append([])
            levels[level].append(node)
        return levels


def _made(node: object, at: int) -> object:
    """A node that came as JSON; what is wrong with it is named within the graph."""
    if not isinstance(node, dict):
        return node
    with _within(pointer("nodes", at)):
        return GraphNode(**node)


def check_known(graph: Graph, nodes: NodeTable, *, scoped: bool) -> None:
    """Raise unless an application knows every node type, and the run has the scope that nodes ask for."""
    for at, node in enumerate(graph.nodes):
        if node.node not in nodes:
            raise _unknown_node(pointer("nodes", at, "node"), node.node)
        if node.scope == RUN_SCOPE and not scoped:
            raise PipelineError.invalid_input(pointer("nodes", at, "scope"), "the run has no scope")


def _check_place(node: GraphNode, declared: set[str], path: str) -> None:
    if not _ID.fullmatch(node.id):
        raise PipelineError.invalid_input(f"{path}/id", "1 to 64 letters, digits, '_' and '-'")
    if node.id in declared:
        raise PipelineError.invalid_input(f"{path}/id", "another node has this id")
    for at, before in enumerate(node.dependencies):
        where = f"{path}/dependencies/{at}"
        if before not in declared:
            raise PipelineError.invalid_input(where, "no node of this id is declared before")
        if before in node.dependencies[:at]:
            raise PipelineError.invalid_input(where, "is named twice")


def _check_call(node: GraphNode, path: str) -> None:
    if node.binding is not None and node.input is not None:
        raise PipelineError.invalid_input(f"{path}/input", "either a binding or a constant input")
    if node.binding is not None and not is_known(node.binding):
        message = "no function of this name is registered in this process"
        raise PipelineError(
            "UNKNOWN_BINDING",
            f"{path}/binding: {message}",
            {"path": f"{path}/binding", "binding": node.binding},
        )
    row = NODES.get(node.node)
    if row is not None:
        _check_built_in(node, row, path)
    elif node.node.partition(".")[0] in DOMAIN_QUEUES:  # others may be an application's: `check_known`
        raise _unknown_node(f"{path}/node", node.node)


def _check_built_in(node: GraphNode, row: NodeType, path: str) -> None:
    if node.scope is not None and row.domain != CONTEXT:
        raise PipelineError.invalid_input(f"{path}/scope", "only CONTEXT nodes work on stored state")
    own = sorted(OWN_OPTIONS & node.options.keys())
    if own:
        raise PipelineError.invalid_input(f"{path}/options/{own[0]}", "is the run's to say")
    with _within(f"{path}/options"):
        parse_options(row, node.options)
    if node.binding is None and row.input_model is not None:
        scope: JsonObject = {} if node.scope is None else {"scope": ANY_SCOPE}
        with _within(f"{path}/input"):
            from_wire(row.input_model, {**(node.input or {}), **scope}, error=row.input_error)


@contextmanager
def _within(path: str) -> Iterator[None]:
    """Raise what a node's own check says as the graph's error, with the place in the graph."""
    try:
        yield
    except DittoError as problem:
        where = path + str((problem.details or {}).get("path", "")).removeprefix(f"/{OPTIONS_KEY}")
        raise PipelineError("INVALID_INPUT", f"{path}: {problem.message}", {"path": where}) from None


def _unknown_node(path: str, node: str) -> PipelineError:
    return PipelineError("UNKNOWN_NODE", f"{path}: no node has this name", {"path": path, "node": node})
