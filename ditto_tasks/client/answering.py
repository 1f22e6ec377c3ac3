"""Starting and stopping pipelines: their record first, so that nothing runs unwatched."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ditto_tasks.celery import DittoCelery
from ditto_tasks.errors import Cancelled, PipelineError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.canvas import answer_canvas, answer_request
from ditto_tasks.pipelines.checking import check
from ditto_tasks.pipelines.models import AnswerOptions, AnswerRequest, FlowRequest, RunRequest
from ditto_tasks.pipelines.plan import Step, steps_of
from ditto_tasks.pipelines.run_admission import run_admission, run_shard
from ditto_tasks.pipelines.runs import next_of
from ditto_tasks.pipelines.steps import check_run_id, step_id
from ditto_tasks.sending import typed_broker_errors
from ditto_tasks.settings import Settings


@typed_broker_errors()
def start_answer(app: DittoCelery, request: AnswerRequest, pipeline: str) -> None:
    """Check the whole canvas, note whose it is, record it with its deadline, and publish its first step."""
    check_run_id(pipeline, "/pipelineId")
    runtime = app.settings.runtime
    check(answer_canvas(app, request, pipeline), app.nodes, shards=runtime.shards.count)
    with _traced(app, request, pipeline):
        timed = request.model_copy(update={"deadline_ms": _open(app, request, pipeline)})
        answer_canvas(app, timed, pipeline).apply_async()


@typed_broker_errors()
def start_flow(app: DittoCelery, request: FlowRequest, pipeline: str) -> None:
    """Note whose the flow is, record it with its deadline, and publish its first step."""
    check_run_id(pipeline, "/pipelineId")
    with _traced(app, request, pipeline):
        _open(app, request, pipeline)
        app.runs.go_on(pipeline)


def _traced(app: DittoCelery, request: RunRequest, pipeline: str) -> AbstractContextManager[object]:
    runtime = app.settings.runtime
    kind = request.flow if isinstance(request, FlowRequest) else "answer"
    timeout_ms = request.timeout_ms or runtime.pipelines.deadline_ms
    return app.traces.starting(kind, pipeline, ttl_ms=timeout_ms + runtime.results.expires_ms)


def _open(app: DittoCelery, request: RunRequest, pipeline: str) -> int:
    """Record a pipeline; its deadline. Without a scope it is looked after by any shard's owner."""
    runtime, scope = app.settings.runtime, request.scope
    known = app.records.load(pipeline)
    if known is not None and known.request.scope != scope:  # it would become this caller's
        raise PipelineError("RUN_EXISTS", "a pipeline of another scope has this id")
    shard = run_shard(pipeline, scope, runtime.shards.count)
    timeout_ms = request.timeout_ms or runtime.pipelines.deadline_ms
    kept_ms = timeout_ms + runtime.results.expires_ms
    admission = run_admission(pipeline, scope, shard=shard, ttl_ms=kept_ms)
    app.coordination.admit(admission, max_depth=runtime.shards.max_depth)
    app.run_index.add("pipeline", pipeline, tenant=admission.tenant, ttl_ms=admission.ttl_ms)
    return app.records.open(pipeline, request, shard=shard, deadline_ms=timeout_ms)


@typed_broker_errors()
def cancel_answer(app: DittoCelery, request: RunRequest, pipeline: str) -> None:
    """End the pipeline as cancelled unless it has ended; the step at work is asked to stop."""
    at_work = _steps(app, request, pipeline)
    app.runs.fail(pipeline, Cancelled())
    for step in at_work:
        app.coordination.cancel(step_id(pipeline, step.name))


@typed_broker_errors()
def cancel_task(app: DittoCelery, task_id: str) -> None:
    """Ask a task to stop; what it has committed stands."""
    app.coordination.cancel(task_id)


def _steps(app: DittoCelery, request: RunRequest, pipeline: str) -> list[Step]:
    """The steps that may be at work; of a flow that is one."""
    if isinstance(request, AnswerRequest):
        return steps_of(request, pipeline)
    record = app.records.load(pipeline)
    if record is None or record.state != "running":
        return []
    step = next_of(record)
    return [step] if isinstance(step, Step) else []


def the_request(
    settings: Settings,
    scope: Scope | Mapping[str, JsonValue],
    question: str,
    options: AnswerOptions,
) -> AnswerRequest:
    """The checked request, with the deployment's default for searches that fail."""
    default: AnswerOptions = {"on_search_failure": settings.runtime.pipelines.on_search_failure}
    given: AnswerOptions = {**default, **options}
    return answer_request(scope, question, **given)
