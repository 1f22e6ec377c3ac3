"""Runs of graphs as clients start, follow and read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import DittoCelery
from ditto_tasks.coordination import Admission
from ditto_tasks.errors import Cancelled, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.pipelines.graph_records import Opening
from ditto_tasks.pipelines.graph_runs import run_not_found
from ditto_tasks.pipelines.graphs import Graph, check_known
from ditto_tasks.pipelines.run_index import RecordKind
from ditto_tasks.sharding import shard_of, shard_queue
from ditto_tasks.tenants import tenant_of
from ditto_tasks.worker.keys import SCOPE_HEADER, TENANT_HEADER

ScopeLike = Scope | Mapping[str, JsonValue]
Outputs = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class GraphCall:
    """A run that is to be started."""

    run: str
    graph: Graph
    input: JsonValue
    scope: Scope | None
    timeout_ms: int | None


def graph_call(
    run: str, graph: Graph, given: object, scope: ScopeLike | None, timeout_ms: int | None
) -> GraphCall:
    """The checked call."""
    own = None if scope is None else from_wire(Scope, to_wire(scope))
    if timeout_ms is not None and timeout_ms < 1:
        raise PipelineError.invalid_input("/timeoutMs", "must be at least 1")
    return GraphCall(run, graph, to_wire(given), own, timeout_ms)


def start_graph(app: DittoCelery, call: GraphCall) -> None:
    """Check the graph against the application, note whose the run is, record it, publish what comes first."""
    check_known(call.graph, app.nodes, scoped=call.scope is not None)
    runtime = app.settings.runtime
    timeout_ms = call.timeout_ms or runtime.pipelines.deadline_ms
    with app.traces.starting("graph", call.run, ttl_ms=timeout_ms + runtime.results.expires_ms):
        _start(app, call, timeout_ms)


def _start(app: DittoCelery, call: GraphCall, timeout_ms: int) -> None:
    admit(app, "graph", call.run, call.scope, timeout_ms)
    opening = Opening(
        run=call.run,
        graph=call.graph,
        input=call.input,
        shard=shard_for(app, call.run, call.scope),
        timeout_ms=timeout_ms,
        concurrency=app.settings.runtime.graph_concurrency,
        scope=call.scope,
        headers=headers_of(call.scope),
    )
    app.graphs.start(opening)


def admit(app: DittoCelery, kind: RecordKind, run: str, scope: Scope | None, timeout_ms: int) -> None:
    """Refuse a run of an erased session or of a full shard; note whose it is, and list it."""
    runtime = app.settings.runtime
    admission = Admission(
        task_id=run,
        root_id=run,
        shard_queue=None if scope is None else shard_queue(shard_for(app, run, scope)),
        session=None if scope is None else scope.session_id,
        tenant=None if scope is None else tenant_of(scope.wire_form()),
        ttl_ms=timeout_ms + runtime.results.expires_ms,
        in_canvas=True,
    )
    app.coordination.admit(admission, max_depth=runtime.shards.max_depth)
    app.run_index.add(kind, run, tenant=admission.tenant, ttl_ms=admission.ttl_ms)


def shard_for(app: DittoCelery, run: str, scope: Scope | None) -> int:
    """Whose owner looks after the run: the scope's shard, any one without a scope."""
    key = run if scope is None else scope_key(scope.wire_form())
    return shard_of(key, app.settings.runtime.shards.count)


def headers_of(scope: Scope | None) -> JsonObject:
    """What says on a message whose it is: not every node has a scope in its input."""
    if scope is None:
        return {}
    wire = scope.wire_form()
    tenant = tenant_of(wire)
    headers: JsonObject = {SCOPE_HEADER: scope_key(wire)}
    return {**headers, TENANT_HEADER: tenant} if tenant else headers


def cancel_run(app: DittoCelery, run: str) -> None:
    """End the run as cancelled unless it has ended; nodes at work are asked to stop."""
    app.coordination.cancel_all(run)
    app.graphs.fail(run, Cancelled())


def resume_run(app: DittoCelery, run: str, timeout_ms: int | None) -> None:
    """Let the run go on from what was settled, under a new deadline."""
    app.coordination.withdraw_cancel(run)
    app.graphs.resume(run, timeout_ms or app.settings.runtime.pipelines.deadline_ms)


def nodes_of(app: DittoCelery, run: str, nodes: Sequence[str] | None) -> list[str]:
    """Those of these nodes that a run has, all without a choice, in the order of the graph."""
    planned = [node for node, _, _ in app.graphs.records.plan(run)]
    if not planned:
        raise run_not_found()
    return planned if nodes is None else [node for node in planned if node in set(nodes)]


def outputs_of(app: DittoCelery, run: str, nodes: Sequence[str] | None = None) -> Outputs:
    """The outputs that are there by now, in the order of the graph."""
    return app.graphs.records.outputs(run, nodes_of(app, run, nodes))
