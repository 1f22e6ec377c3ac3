"""The canvas that answers a question from a session's context and its memories.

    chain([LOAD,] chord([search …], UPDATE), SELECT, SAMPLE [, UPDATE turn] [, MEMORY.WRITE])

Signatures carry the scope, ids and the question; what was found, selected and said travels as
results, each to the next step only. The header is flat and the chord explicit: Celery reverses a
nested group's results, and unpacks a group of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Unpack
from uuid import uuid4

from celery import Celery, chain, chord
from celery.canvas import Signature

from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.pipelines import steps
from ditto_tasks.pipelines.models import AnswerOptions, AnswerRequest
from ditto_tasks.pipelines.plan import Remainder, Results, Stage, Step, remainder, stages_of
from ditto_tasks.task import OPTIONS_KEY

FAILED_TASK: Final = "ditto.pipeline.failed"  # the errback; runs.py says what it does


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
    return chain(*_canvases(app, left, pipeline), app=app)


def _canvases(app: Celery, left: Remainder, pipeline: str) -> list[Signature]:
    first, *rest = left.stages
    return [_canvas(app, first, pipeline, left.upstream), *(_canvas(app, stage, pipeline) for stage in rest)]


def _canvas(app: Celery, stage: Stage, pipeline: str, upstream: JsonValue = None) -> Signature:
    *header, body = stage
    if not header:
        return _signature(app, body, pipeline, upstream)
    searches = [_signature(app, step, pipeline) for step in header]
    last = _signature(app, body, pipeline)
    return chord(searches, last, app=app).set(task_id=steps.step_id(pipeline, body.name))


def _signature(app: Celery, step: Step, pipeline: str, upstream: JsonValue = None) -> Signature:
    given = step.bound and upstream is not None
    return app.signature(
        step.node,
        args=(upstream,) if given else (),
        kwargs={**step.wire, OPTIONS_KEY: step.options},
        immutable=given or not step.bound,
        task_id=steps.step_id(pipeline, step.name),
        root_id=pipeline,
        # on every task: on_error() of a chain leaves out the header of a chord
        link_error=[app.signature(FAILED_TASK, kwargs={"pipeline": pipeline})],
    )
