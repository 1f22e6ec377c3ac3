"""Runs as they may be seen, from the records of pipelines, graphs and loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ditto_tasks.canonical import scope_key
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.base import Outline, PipelineRecord
from ditto_tasks.pipelines.graph_plan import NODE_ID
from ditto_tasks.pipelines.graph_reading import GraphReading
from ditto_tasks.pipelines.graph_values import NodeTimes, Progress
from ditto_tasks.pipelines.loop_records import LoopRecords
from ditto_tasks.pipelines.loops import iteration_id
from ditto_tasks.pipelines.models import AnswerRequest, FlowRequest
from ditto_tasks.pipelines.outcomes import raised_error
from ditto_tasks.pipelines.plan import Step, stages_of
from ditto_tasks.pipelines.queued_flows import FLOWS
from ditto_tasks.pipelines.records import PipelineRecords
from ditto_tasks.pipelines.replay import FlowRun, steps_so_far
from ditto_tasks.pipelines.run_index import Listed, RecordKind, RunIndex
from ditto_tasks.pipelines.run_views import (
    MAX_PAGE,
    NodeState,
    NodeView,
    RunError,
    RunPage,
    RunSummary,
    RunView,
    RunViewState,
)
from ditto_tasks.worker.keys import SCOPE_HEADER

CANCELLED: Final = "Cancelled"


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Implements RunReader."""

    index: RunIndex
    pipelines: PipelineRecords
    graphs: GraphReading
    loops: LoopRecords

    def list(
        self,
        *,
        tenant: str | None = None,
        states: Sequence[RunViewState] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> RunPage:
        """Runs of one tenant or of the whole deployment, the newest first."""
        asked = min(limit, MAX_PAGE)
        listed = self.index.page(tenant, limit=asked, cursor=cursor)
        found = [(each, self._summary(each)) for each in listed]
        self.index.drop([each for each, run in found if run is None], tenant)
        runs = [run for _, run in found if run is not None and (not states or run.state in states)]
        more = listed[-1].cursor if len(listed) == asked else None
        return RunPage(runs=tuple(runs), cursor=more)

    def load(self, run_id: str) -> RunView | None:
        """One run; None where there is none, or its record has expired."""
        kinds: tuple[Callable[[str], RunView | None], ...] = (self._graph, self._loop, self._pipeline)
        return next((view for kind in kinds if (view := kind(run_id)) is not None), None)

    def _summary(self, listed: Listed) -> RunSummary | None:
        readers: Mapping[RecordKind, Callable[[str], Outline | None]] = {
            "graph": self._graph_outline,
            "loop": self._loop_outline,
            "pipeline": self.pipelines.outline,
        }
        found = readers[listed.kind](listed.run)
        if found is None:
            return None
        return RunSummary(
            id=listed.run,
            kind=found.kind,
            name=found.name,
            state=_state(found),
            opened_ms=found.opened_ms,
            deadline_ms=found.deadline_ms,
            ended_ms=found.ended_ms,
            settled=found.settled,
            total=found.total,
            code=None if found.error is None else str(found.error["code"]),
        )

    def _graph_outline(self, run: str) -> Outline | None:
        progress = self.graphs.progress(run)
        return None if progress is None else progress.outline

    def _loop_outline(self, run: str) -> Outline | None:
        head = self.loops.head(run)
        return None if head is None else head.outline

    def _graph(self, run: str) -> RunView | None:
        progress = self.graphs.progress(run)
        if progress is None:
            return None
        return RunView(
            id=run,
            kind="graph",
            name=progress.graph,
            state=progress.state,
            opened_ms=progress.opened_ms,
            deadline_ms=progress.deadline_ms,
            now_ms=progress.now_ms,
            ended_ms=progress.ended_ms,
            error=_error(progress.error),
            nodes=graph_nodes(self.graphs, run, progress),
            scope_hash=_scope_hash(progress.headers),
        )

    def _loop(self, run: str) -> RunView | None:
        head = self.loops.head(run)
        if head is None:
            return None
        shown = head.iteration - (head.state == "done")  # the one at work, else the last one
        iteration = iteration_id(run, shown)
        progress = self.graphs.progress(iteration)
        return RunView(
            id=run,
            kind="loop",
            name=head.name,
            state=head.state,
            opened_ms=head.opened_ms,
            deadline_ms=head.deadline_ms,
            now_ms=head.now_ms,
            ended_ms=head.ended_ms,
            error=_error(head.error),
            nodes=() if progress is None else graph_nodes(self.graphs, iteration, progress),
            iteration=shown + 1,
            scope_hash=_scope_hash(head.headers),
        )

    def _pipeline(self, run: str) -> RunView | None:
        record = self.pipelines.load(run)
        if record is None:
            return None
        return RunView(
            id=run,
            kind=_kind(record),
            name=_name(record),
            state=_state(record),
            opened_ms=record.opened_ms,
            deadline_ms=record.deadline_ms,
            now_ms=record.now_ms,
            ended_ms=record.ended_ms,
            error=_error(record.error),
            nodes=pipeline_nodes(record),
            scope_hash=_hash_of(record.request.scope),
        )


def graph_nodes(graphs: GraphReading, run: str, progress: Progress) -> tuple[NodeView, ...]:
    """The nodes of a run with their states."""
    plan = graphs.plan(run)
    times = graphs.node_times(run, [node for node, _, _ in plan])
    return tuple(
        NodeView(
            id=node,
            node=kind,
            dependencies=tuple(before),
            state=_node_state(known, running=progress.state == "running"),
            started_ms=known.began_ms,
            ended_ms=known.ended_ms,
            attempt=known.times,
        )
        for (node, kind, before), known in zip(plan, times, strict=True)
    )


def _node_state(known: NodeTimes, *, running: bool) -> NodeState:
    if known.ended_ms is not None:
        return "failed" if known.raised else "done"
    if known.began_ms is not None:
        return "running"
    if not running:
        return "skipped"
    return "waiting" if known.sent_ms is None else "sent"


def pipeline_nodes(record: PipelineRecord) -> tuple[NodeView, ...]:
    """The steps of a pipeline: all of an answer's, those so far of a flow's."""
    if isinstance(record.request, AnswerRequest):
        stages = stages_of(record.request, record.pipeline)
    else:
        stages = [[step] for step in _steps_of_flow(record, record.request)]
    nodes: list[NodeView] = []
    before: tuple[str, ...] = ()
    for *header, body in stages:
        nodes += [_step_view(record, step, before) for step in header]
        nodes.append(_step_view(record, body, tuple(step.name for step in header) or before))
        before = (body.name,)
    return tuple(nodes)


def _steps_of_flow(record: PipelineRecord, request: FlowRequest) -> list[Step]:
    run = FlowRun(record.pipeline, request, record.results, record.opened_ms, record.now_ms)
    return steps_so_far(FLOWS[request.flow], run)


def _step_view(record: PipelineRecord, step: Step, before: tuple[str, ...]) -> NodeView:
    return NodeView(
        id=step.name,
        node=step.node,
        dependencies=before,
        state=_step_state(record, step.name, before),
        started_ms=record.began.get(step.name),
        ended_ms=record.ended.get(step.name, record.ended_ms if step.name in record.began else None),
    )


def _step_state(record: PipelineRecord, step: str, before: Sequence[str]) -> NodeState:
    if step in record.results:
        return "done" if raised_error(record.results[step]) is None else "failed"
    if step in record.began:  # of a pipeline that has ended it is the step that raised or was stopped
        return "running" if record.state == "running" else "failed"
    if record.state != "running":
        return "skipped"
    return "sent" if all(each in record.results for each in before) else "waiting"


def _kind(record: PipelineRecord) -> str:
    return "answer" if isinstance(record.request, AnswerRequest) else "flow"


def _name(record: PipelineRecord) -> str:
    return "answer" if isinstance(record.request, AnswerRequest) else record.request.flow


def _state(record: PipelineRecord | Outline) -> RunViewState:
    cancelled = record.error is not None and record.error["kind"] == CANCELLED
    return "cancelled" if cancelled else record.state


def _error(error: JsonObject | None) -> RunError | None:
    if error is None:
        return None
    details = error.get("details")
    node = details.get(NODE_ID) if isinstance(details, dict) else None
    return RunError(code=str(error["code"]), message=str(error["message"]), node=node)


def _scope_hash(headers: JsonObject) -> str | None:
    found = headers.get(SCOPE_HEADER)
    return None if found is None else str(found)


def _hash_of(scope: Scope | None) -> str | None:
    return None if scope is None else scope_key(scope.wire_form())
