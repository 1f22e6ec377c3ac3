"""Flows as generators that are replayed: what comes next follows from what the steps gave. Pure.

A flow yields its steps and is sent their results. After every step it is run anew from its start over the
recorded results, up to the first step that has none: that one is sent. Names of steps are therefore the
same in every replay, and so are their task ids.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.models import FlowRequest
from ditto_tasks.pipelines.outcomes import raised_error
from ditto_tasks.pipelines.plan import Results, Step
from ditto_tasks.pipelines.steps import step_id

FlowSteps: TypeAlias = Generator[Step, JsonValue, JsonObject]


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A run of a flow as it stands."""

    pipeline: str
    request: FlowRequest
    results: Results
    opened_ms: int
    now_ms: int

    @property
    def wire(self) -> JsonObject:
        """The flow's input."""
        return self.request.input

    @property
    def target(self) -> JsonObject:
        """The scope or the context that the flow works on, as its CONTEXT calls name it."""
        if self.request.scope is not None:
            return {"scope": to_wire(self.request.scope)}
        context = self.wire.get("context")
        return {} if context is None else {"context": context}

    def id_of(self, step: str) -> str:
        """The task id of a step, which is also its operation id."""
        return step_id(self.pipeline, step)


Flow: TypeAlias = Callable[[FlowRun], FlowSteps]


@dataclass(frozen=True, slots=True)
class Ended:
    """The flow has no next step."""

    result: JsonObject


def advance(flow: Flow, run: FlowRun) -> Step | Ended:
    """The step to send now, or the flow's result; raises what the flow raises."""
    steps = flow(run)
    try:
        step = next(steps)
        while step.name in run.results:
            step = _resume(steps, run.results[step.name])
    except StopIteration as end:
        return Ended(end.value)
    return _with_deadline(step, run)


def steps_so_far(flow: Flow, run: FlowRun) -> list[Step]:
    """The steps that have results, and the one that is to run now, in their order."""
    steps, told = flow(run), list[Step]()
    try:
        step = next(steps)
        while True:
            told.append(step)
            if step.name not in run.results:
                return told
            step = _resume(steps, run.results[step.name])
    except (StopIteration, DittoError):  # the flow's end
        return told


def _resume(steps: FlowSteps, result: JsonValue) -> Step:
    error = raised_error(result)
    return steps.send(result) if error is None else steps.throw(error)


def _with_deadline(step: Step, run: FlowRun) -> Step:
    given = {"deadlineMs": run.request.deadline_ms, **step.options}
    return replace(step, options={name: value for name, value in given.items() if value is not None})
