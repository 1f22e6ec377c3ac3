"""Runs of graphs and loops as clients start, follow, stop, resume and read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict
from uuid import uuid4

from ditto_tasks.admission import Admission
from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import DittoCelery
from ditto_tasks.client.answering import cancel_answer
from ditto_tasks.errors import Cancelled, NodeInputError, PipelineError
from ditto_tasks.json_values import InvalidJson, JsonObject, JsonValue, freeze
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.pipelines.ends import STOPPED, not_resumable
from ditto_tasks.pipelines.graph_runs import run_not_found
from ditto_tasks.pipelines.graph_values import Head, Opening
from ditto_tasks.pipelines.graphs import Graph, check_known
from ditto_tasks.pipelines.loop_records import LoopHead, LoopOpening
from ditto_tasks.pipelines.loops import Loop, iteration_id
from ditto_tasks.pipelines.run_admission import run_admission, run_shard
from ditto_tasks.pipelines.run_index import RecordKind
from ditto_tasks.pipelines.steps import check_run_id
from ditto_tasks.sending import typed_broker_errors
from ditto_tasks.tenants import tenant_of
from ditto_tasks.worker.keys import SCOPE_HEADER, TENANT_HEADER

ScopeLike = Scope | Mapping[str, JsonValue]
Outputs = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RunCall:
    """A run that is to be started."""

    run: str
    what: Graph | Loop
    input: JsonValue
    scope: Scope | None
    timeout_ms: int | None


class RunOptions(TypedDict, total=False):
    """How a run is started: whose it is, under which id, and how long it may take."""

    scope: ScopeLike | None
    run_id: str | None
    timeout_ms: int | None


def run_call(what: Graph | Loop, given: object, options: RunOptions) -> RunCall:
    """The checked call."""
    scope, timeout_ms = options.get("scope"), options.get("timeout_ms")
    own = None if scope is None else _checked_scope(scope)
    if timeout_ms is not None and timeout_ms < 1:
        raise PipelineError.invalid_input("/timeoutMs", "must be at least 1")
    run = check_run_id(options.get("run_id") or str(uuid4()), "/runId")
    return RunCall(run, what, _checked_input(given), own, timeout_ms)


def _checked_scope(scope: ScopeLike) -> Scope:
    try:
        return from_wire(Scope, to_wire(scope))
    except NodeInputError as error:
        within = str((error.details or {}).get("path", ""))
        reason = error.message.removeprefix(f"{within or 'input'}: ")
    except TypeError:  # of `to_wire`, whose text names a class
        within, reason = "", "must be an object"
    raise PipelineError.invalid_input(f"/scope{within}", reason)


def _checked_input(given: object) -> JsonValue:
    try:
        return freeze(to_wire(given))
    except InvalidJson as problem:
        raise PipelineError.invalid_input(f"/input{problem.path}", problem.reason) from None
    except TypeError:  # of `to_wire`, whose text names a class
        raise PipelineError.invalid_input("/input", "must be JSON") from None


@typed_broker_errors()
def start_run(app: DittoCelery, call: RunCall) -> None:
    """Check against the application, note whose the run is, record it, publish what comes first."""
    graphs = [call.what] if isinstance(call.what, Graph) else call.what.graphs.values()
    for graph in graphs:
        check_known(graph, app.nodes, scoped=call.scope is not None)
    timeout_ms = call.timeout_ms or app.settings.runtime.pipelines.deadline_ms
    kind: RecordKind = "graph" if isinstance(call.what, Graph) else "loop"
    with app.traces.starting(kind, call.run, ttl_ms=timeout_ms + app.settings.runtime.results.expires_ms):
        admit(app, kind, call.run, call.scope, timeout_ms)
        if isinstance(call.what, Graph):
            app.graphs.start(_opening(app, call, call.what, timeout_ms))
        else:
            app.loops.start(_loop_opening(app, call, call.what, timeout_ms))


def _opening(app: DittoCelery, call: RunCall, graph: Graph, timeout_ms: int) -> Opening:
    return Opening(
        run=call.run,
        graph=graph,
        input=call.input,
        shard=shard_for(app, call.run, call.scope),
        timeout_ms=timeout_ms,
        concurrency=app.settings.runtime.graph_concurrency,
        scope=call.scope,
        headers=headers_of(call.scope),
    )


def _loop_opening(app: DittoCelery, call: RunCall, loop: Loop, timeout_ms: int) -> LoopOpening:
    runtime = app.settings.runtime
    return LoopOpening(
        run=call.run,
        loop=loop.wire_form(),
        state=call.input,
        shard=shard_for(app, call.run, call.scope),
        timeout_ms=timeout_ms,
        concurrency=runtime.graph_concurrency,
        max_iterations=loop.max_iterations or runtime.loop_max_iterations,
        scope=None if call.scope is None else call.scope.wire_form(),
        headers=headers_of(call.scope),
    )


def admit(app: DittoCelery, kind: RecordKind, run: str, scope: Scope | None, timeout_ms: int) -> None:
    """Refuse a run of an erased session or of a full shard; note whose it is, and list it.

    A run that is there already stays whose it is: the id alone makes nobody its owner.
    """
    if app.graphs.records.head(run) is not None or app.loops.records.head(run) is not None:
        return
    _note_and_list(app, kind, run, scope, timeout_ms)


def _note_and_list(
    app: DittoCelery, kind: RecordKind, run: str, scope: Scope | None, timeout_ms: int
) -> None:
    """The run is listed, and whose it is is known, for as long as its record will be there."""
    admission = _note(app, run, scope, timeout_ms)
    app.run_index.add(kind, run, tenant=admission.tenant, ttl_ms=admission.ttl_ms)


def _note(app: DittoCelery, run: str, scope: Scope | None, timeout_ms: int) -> Admission:
    runtime = app.settings.runtime
    kept_ms = timeout_ms + runtime.results.expires_ms
    admission = run_admission(run, scope, shard=shard_for(app, run, scope), ttl_ms=kept_ms)
    app.coordination.admit(admission, max_depth=runtime.shards.max_depth)
    return admission


def shard_for(app: DittoCelery, run: str, scope: Scope | None) -> int:
    """The shard whose owner looks after the run."""
    return run_shard(run, scope, app.settings.runtime.shards.count)


def headers_of(scope: Scope | None) -> JsonObject:
    """What says on a message whose it is: not every node has a scope in its input."""
    if scope is None:
        return {}
    wire = scope.wire_form()
    tenant = tenant_of(wire)
    headers: JsonObject = {SCOPE_HEADER: scope_key(wire)}
    return {**headers, TENANT_HEADER: tenant} if tenant else headers


@typed_broker_errors()
def cancel_run(app: DittoCelery, run: str) -> None:
    """End a run of any kind as cancelled unless it has ended; what is at work is asked to stop."""
    if app.graphs.records.head(run) is not None:
        app.coordination.cancel_all(run)
        app.graphs.fail(run, Cancelled())
    elif app.loops.records.head(run) is not None:
        _cancel_loop(app, run)
    elif (pipeline := app.records.load(run)) is not None:
        cancel_answer(app, pipeline.request, run)
    else:
        raise run_not_found()


def _cancel_loop(app: DittoCelery, run: str) -> None:
    """What is at work is asked before the end is recorded: a resume after that withdraws both."""
    while (loop := app.loops.records.head(run)) is not None and loop.state == "running":
        app.coordination.cancel_all(iteration_id(run, loop.iteration))
        if app.loops.fail(loop, Cancelled()):
            return  # else it has gone on to its next iteration


@typed_broker_errors()
def resume_run(app: DittoCelery, run: str, timeout_ms: int | None) -> None:
    """Let a run that failed or was cancelled go on from what was settled, under a new deadline.

    One that is running or done stays as it is. No end that it had before stands when this returns. Pipelines
    and flows that have ended cannot be: RUN_NOT_RESUMABLE. QUEUE_FULL and ERASED as for a new run.
    """
    deadline_ms = timeout_ms or app.settings.runtime.pipelines.deadline_ms
    if (loop := app.loops.records.head(run)) is not None:
        _resume_loop(app, loop, deadline_ms)
    elif (graph := app.graphs.records.head(run)) is not None:
        _resume_graph(app, run, graph, deadline_ms)
    elif (pipeline := app.records.load(run)) is None:
        raise run_not_found()
    elif pipeline.state == "failed":
        raise not_resumable()


def _resume_loop(app: DittoCelery, loop: LoopHead, timeout_ms: int) -> None:
    if loop.state in STOPPED:
        iteration, scope = iteration_id(loop.run, loop.iteration), _scope_of(loop.scope)
        _prolong(app, "loop", loop.run, scope, timeout_ms)
        _note(app, iteration, scope, timeout_ms)  # its record is prolonged, too
        app.coordination.withdraw_cancel(iteration)
    if loop.state != "done":  # a resume that broke off may have left the old end of one that is running
        app.loops.resume(loop.run, timeout_ms, loop.resumes + (loop.state in STOPPED))


def _resume_graph(app: DittoCelery, run: str, graph: Head, timeout_ms: int) -> None:
    if graph.state in STOPPED:
        _prolong(app, "graph", run, _scope_of(graph.scope), timeout_ms)
        app.coordination.withdraw_cancel(run)
    if graph.state != "done":
        app.graphs.resume(run, timeout_ms, graph.resumes + (graph.state in STOPPED))


def _prolong(app: DittoCelery, kind: RecordKind, run: str, scope: Scope | None, timeout_ms: int) -> None:
    """Whose a run is and its trace stay known, and the run listed, for as long as its record."""
    _note_and_list(app, kind, run, scope, timeout_ms)
    app.traces.prolong(run, ttl_ms=timeout_ms + app.settings.runtime.results.expires_ms)


def _scope_of(wire: JsonObject | None) -> Scope | None:
    return None if wire is None else from_wire(Scope, wire)


@typed_broker_errors()
def loop_state(app: DittoCelery, run: str) -> JsonValue:
    """The state of a loop by now."""
    record = app.loops.records.load(run)
    if record is None:
        raise run_not_found()
    return record.value


@typed_broker_errors()
def nodes_of(app: DittoCelery, run: str, nodes: Sequence[str] | None) -> list[str]:
    """Those of these nodes that a run has, all without a choice, in the order of the graph."""
    planned = [node for node, _, _ in app.graphs.records.plan(run)]
    if not planned:
        raise run_not_found()
    return planned if nodes is None else [node for node in planned if node in set(nodes)]


@typed_broker_errors()
def outputs_of(app: DittoCelery, run: str, nodes: Sequence[str] | None = None) -> Outputs:
    """The outputs that are there by now, in the order of the graph."""
    return app.graphs.records.outputs(run, nodes_of(app, run, nodes))
