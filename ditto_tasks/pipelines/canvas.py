"""The canvas that answers a question from a session's context and its memories.

    chain([LOAD,] chord([search …], UPDATE), SELECT, SAMPLE [, UPDATE turn] [, MEMORY.WRITE])

Signatures carry the scope, ids and the question; what was found, selected and said travels as
results, each to the next step only. The header is flat and the chord explicit: Celery reverses a
nested group's results, and unpacks a group of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Unpack
from uuid import uuid4

from celery import Celery, chain, chord
from celery.canvas import Signature

from ditto_tasks.canonical import scope_key
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.pipelines import steps
from ditto_tasks.pipelines.models import AnswerOptions, AnswerRequest
from ditto_tasks.pipelines.plan import Remainder, Results, Stage, Step, remainder, stages_of
from ditto_tasks.task import OPTIONS_KEY
from ditto_tasks.tenants import tenant_of
from ditto_tasks.worker.keys import SCOPE_HEADER, TENANT_HEADER

FAILED_TASK: Final = "ditto.pipeline.failed"  # the errback; runs.py says what it does


class Whose(NamedTuple):
    """The pipeline and the scope that a task works for: not every node has a scope in its input."""

    pipeline: str
    scope: Scope | None

    @property
    def headers(self) -> dict[str, str]:
        """What says so on the message."""
        if self.scope is None:
            return {}
        scope = self.scope.wire_form()
        tenant = tenant_of(scope)
        return {SCOPE_HEADER: scope_key(scope)} | ({TENANT_HEADER: tenant} if tenant else {})


def answer(
    app: Celery,
    scope: Scope | Mapping[str, JsonValue],
    question: str,
    *,
    pipeline_id: str | None = None,
    **options: Unpack[AnswerOptions],
) -> Signature:
    """The canvas for one question; `options` are the other fields of AnswerRequest."""
    asked = answer_request(scope, question, **options)
    return answer_canvas(app, asked, pipeline_id or str(uuid4()))


def answer_request(
    scope: Scope | Mapping[str, JsonValue], question: str, **options: Unpack[AnswerOptions]
) -> AnswerRequest:
    """The request, or NodeInputError naming the field that is wrong."""
    given = {name: to_wire(value) for name, value in options.items() if value is not None}
    return from_wire(AnswerRequest, {**given, "scope": to_wire(scope), "question": question})


def answer_canvas(
    app: Celery, request: AnswerRequest, pipeline: str, results: Results | None = None
) -> Signature:
    """The canvas of all steps, or of what is left after those in `results`."""
    left = remainder(stages_of(request, pipeline), results or {})
    return chain(*_canvases(app, left, Whose(pipeline, request.scope)), app=app)


def flow_task(app: Celery, step: Step, pipeline: str, scope: Scope | None) -> Signature:
    """One step of a flow; what follows it is published when it has ended."""
    return _signature(app, step, Whose(pipeline, scope))


def _canvases(app: Celery, left: Remainder, run: Whose) -> list[Signature]:
    first, *rest = left.stages
    return [_canvas(app, first, run, left.upstream), *(_canvas(app, stage, run) for stage in rest)]


def _canvas(app: Celery, stage: Stage, run: Whose, upstream: JsonValue = None) -> Signature:
    *header, body = stage
    if not header:
        return _signature(app, body, run, upstream)
    searches = [_signature(app, step, run) for step in header]
    last = _signature(app, body, run)
    return chord(searches, last, app=app).set(task_id=steps.step_id(run.pipeline, body.name))


def _signature(app: Celery, step: Step, run: Whose, upstream: JsonValue = None) -> Signature:
    given = step.bound and upstream is not None
    return app.signature(
        step.node,
        args=(upstream,) if given else (),
        kwargs={**step.wire, OPTIONS_KEY: step.options},
        immutable=given or not step.bound,
        task_id=steps.step_id(run.pipeline, step.name),
        root_id=run.pipeline,
        headers=run.headers,
        # on every task: on_error() of a chain leaves out the header of a chord
        link_error=[app.signature(FAILED_TASK, kwargs={"pipeline": run.pipeline})],
    )
