"""Loops: graphs that are run again and again over a state, until a function says that it is enough. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, cast

from pydantic import Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from ditto_tasks.errors import PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import NonEmptyText, WireModel, invalid_input
from ditto_tasks.pipelines.graph_functions import MoreFunctions, call, is_known, no_more
from ditto_tasks.pipelines.graph_plan import Execute, run_graph
from ditto_tasks.pipelines.graphs import Graph

_ITERATION: Final = re.compile(r"(.+)-i[0-9]+")
FUNCTIONS: Final = ("select", "bind", "update", "done")


class Loop(WireModel):
    """`select` names one of the graphs by the state, `bind` makes its input, `update` the next state from the
    outputs, and `done` says whether that is the last one. It goes round at least once.

    The four are names of registered functions: `select(state)`, `bind(state)`, `update(state, outputs)`,
    `done(state)`. A loop of one graph needs no `select`. Raises PipelineError as a graph does.
    """

    name: NonEmptyText
    graphs: Annotated[dict[str, Graph], Field(min_length=1)]
    bind: NonEmptyText
    update: NonEmptyText
    done: NonEmptyText
    select: NonEmptyText | None = None
    max_iterations: Annotated[int, Field(ge=1, strict=True)] | None = None  # None: runtime.loopMaxIterations

    def __init__(
        self, name: str = "", graphs: Mapping[str, Graph | JsonObject] | None = None, **more: Any
    ) -> None:
        fields: dict[str, Any] = {"name": name, "graphs": dict(graphs or {})}
        fields |= {to_camel(key): value for key, value in more.items()}
        try:
            super().__init__(**fields)
        except ValidationError as problem:
            raise invalid_input(problem, fields, PipelineError) from None

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if self.select is None and len(self.graphs) != 1:
            raise PipelineError.invalid_input("/select", "is required where there are several graphs")
        for role in FUNCTIONS:
            name = getattr(self, role)
            if name is not None and not is_known(name):
                details = {"path": f"/{role}", "binding": name}
                message = f"/{role}: no function of this name is registered in this process"
                raise PipelineError("UNKNOWN_BINDING", message, details)
        return self


class LoopFunctions:
    """The functions of a loop, by their names on the wire."""

    def __init__(self, loop: JsonObject, more: MoreFunctions = no_more) -> None:
        self._loop = loop
        self._more = more

    def graph(self, state: JsonValue) -> Graph:
        """The graph that is to be run for this state."""
        graphs = cast("dict[str, JsonObject]", self._loop["graphs"])
        chosen = self._call("select", state) if "select" in self._loop else next(iter(graphs))
        if not isinstance(chosen, str) or chosen not in graphs:
            raise PipelineError("UNKNOWN_GRAPH", "the loop has no graph of the selected name")
        return Graph.stored(graphs[chosen])

    def input(self, state: JsonValue) -> JsonValue:
        """The input of that graph's run."""
        return self._call("bind", state)

    def next_state(self, state: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonValue:
        """What the run made of the state."""
        return self._call("update", state, outputs)

    def is_done(self, state: JsonValue) -> bool:
        """Whether that is the last state."""
        verdict = self._call("done", state)
        if not isinstance(verdict, bool):
            raise PipelineError("INVALID_BINDING", "a loop's `done` gives true or false")
        return verdict

    def _call(self, role: str, *arguments: object) -> JsonValue:
        return call(str(self._loop[role]), *arguments, more=self._more)


def run_loop(loop: Loop, state: JsonValue, execute: Execute, *, max_iterations: int = 32) -> JsonValue:
    """Run a loop in this process; what it gives is what a run gives."""
    functions = LoopFunctions(loop.wire_form())
    for _ in range(loop.max_iterations or max_iterations):
        outputs = run_graph(functions.graph(state), functions.input(state), execute)
        state = functions.next_state(state, outputs)
        if functions.is_done(state):
            return state
    raise limit_reached(loop.max_iterations or max_iterations)


def limit_reached(limit: int) -> PipelineError:
    """The error of a loop that is not done after so many iterations."""
    message = f"the loop is not done after {limit} iterations"
    return PipelineError("LOOP_LIMIT_REACHED", message, {"maxIterations": limit})


def iteration_id(run: str, iteration: int) -> str:
    """The id of the graph's run that is one iteration of a loop's run."""
    return f"{run}-i{iteration}"


def loop_of(run: str) -> str | None:
    """The loop of which this run would be an iteration; None for an id that no iteration has."""
    found = _ITERATION.fullmatch(run)
    return None if found is None else found[1]
