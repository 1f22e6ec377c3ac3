"""What workers do for a pipeline around its steps: replay, record, announce its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from celery import Celery, Task, states
from celery.exceptions import ChordError

from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines import steps
from ditto_tasks.pipelines.base import END, AnswerStore, Begun, PipelineRecord, StepRecords
from ditto_tasks.pipelines.canvas import FAILED_TASK
from ditto_tasks.pipelines.heartbeats import Heartbeats
from ditto_tasks.pipelines.models import MAX_SEARCHES, FlowRequest
from ditto_tasks.pipelines.outcomes import error_from_wire, error_to_wire, is_node_result, raised_result
from ditto_tasks.pipelines.plan import Step
from ditto_tasks.pipelines.queued_flows import FLOWS
from ditto_tasks.pipelines.replay import Ended, FlowRun, advance
from ditto_tasks.pipelines.report import answer_of
from ditto_tasks.sending import BrokerError

MAX_HEADER_BYTES: Final = 256 * 1024  # a search's result is copied into the message of the step after it

Send = Callable[[PipelineRecord, Step], None]


class StepRuns:
    """Runs steps so that each has one result, however often it is delivered."""

    def __init__(
        self,
        records: StepRecords,
        answers: Callable[[], AnswerStore],
        send: Send,
        heartbeats: Heartbeats | None = None,
    ) -> None:
        self._records = records
        self._send = send  # publishes a flow's step
        self._answers = answers  # asked late: Celery opens its result backend on first use
        self._heartbeats = heartbeats or Heartbeats(records.beat)

    def run_step(self, pipeline: str, step: str, compute: Callable[[], JsonValue]) -> JsonValue:
        """The step's result: the recorded one, else what `compute` gives, recorded before it is returned.

        Recording comes before Celery sends the next step, so a delivery that dies in between is
        repeated with the same result. Raises what `compute` raises.
        """
        begun = self._records.begin(pipeline, step)
        if begun is None:
            return bounded(step, compute())
        result = begun.result if begun.finished else self._compute(pipeline, step, begun, compute)
        if begun.of_flow:
            self.go_on(pipeline)
        elif step == begun.last_step:
            self.announce(pipeline)
        return result

    def _compute(self, pipeline: str, step: str, begun: Begun, compute: Callable[[], JsonValue]) -> JsonValue:
        if begun.state != "running":
            raise PipelineError("PIPELINE_ENDED", "the pipeline has ended, so this step does nothing")
        with self._heartbeats.during(pipeline):
            result = bounded(step, outcome(compute) if begun.of_flow else compute())
        return self._records.finish(pipeline, step, result)

    def go_on(self, pipeline: str) -> None:
        """Send the step of a flow that is to run now, or end the flow. Idempotent."""
        record = self._records.load(pipeline)
        if record is None or record.state != "running":
            return
        try:
            step = next_of(record)
            if isinstance(step, Step):
                self._send(record, step)
        except BrokerError:  # the sweep sends it again
            raise
        except DittoError as failure:
            self.fail(pipeline, failure)
            return
        if isinstance(step, Ended):
            self._records.finish(pipeline, END, step.result)
            self.announce(pipeline)

    def announce(self, pipeline: str) -> None:
        """Store the answer of a pipeline whose steps have all finished under the pipeline's id."""
        record = self._records.load(pipeline)
        if record is None:
            return
        try:
            answer = result_of(record)
        except DittoError as failure:
            self.fail(pipeline, failure)
            return
        if self._records.settle(pipeline, "done") == "done":
            self._store(pipeline, answer, states.SUCCESS)

    def fail(self, pipeline: str, error: BaseException) -> None:
        """Store why a pipeline failed under its id, unless it has ended.

        A ChordError gives way to what caused it.
        """
        cause = error_to_wire(self._cause(pipeline, error))
        state = self._records.settle(pipeline, "failed", cause)
        if state is None:
            self._store(pipeline, error_from_wire(cause), states.FAILURE)
        elif state == "failed" and (record := self._records.load(pipeline)) is not None:
            self.repeat_end(record)

    def repeat_end(self, record: PipelineRecord) -> None:
        """Tell the caller again how an ended pipeline ended: whoever ended it may have died before."""
        if record.error is None:
            self.announce(record.pipeline)
        else:
            self._store(record.pipeline, error_from_wire(record.error), states.FAILURE)

    def _store(self, pipeline: str, result: object, state: str) -> None:
        self._answers().store_result(pipeline, result, state)
        self._records.announced(pipeline)

    def _cause(self, pipeline: str, error: BaseException) -> BaseException:
        """The typed error of the search for which Celery has only the text of a ChordError."""
        if not isinstance(error, ChordError):
            return error
        answers = self._answers()
        for position in range(MAX_SEARCHES):
            meta = answers.get_task_meta(steps.step_id(pipeline, steps.search_step(position)))
            result = meta.get("result")
            if meta.get("status") == states.FAILURE and isinstance(result, BaseException):
                return result
        return PipelineError("PIPELINE_FAILED", "a search failed, and its error is not known any more")


def outcome(compute: Callable[[], JsonValue]) -> JsonValue:
    """A flow's step that raises has that as its result: the flow decides what becomes of it."""
    try:
        return compute()
    except DittoError as error:
        return raised_result(error)


def next_of(record: PipelineRecord) -> Step | Ended:
    """What a flow does now; its recorded end, if it has come that far."""
    request = cast(FlowRequest, record.request)
    if END in record.results:
        return Ended(cast(JsonObject, record.results[END]))
    run = FlowRun(record.pipeline, request, record.results, record.opened_ms, record.now_ms)
    return advance(FLOWS[request.flow], run)


def result_of(record: PipelineRecord) -> JsonValue:
    """What a pipeline whose steps have finished gives its caller."""
    if isinstance(record.request, FlowRequest):
        return record.results[END]
    return to_wire(answer_of(record.request, record.pipeline, record.results))


def bounded(step: str, result: JsonValue) -> JsonValue:
    """A search's result, or the failed NodeResult RESULT_TOO_LARGE in its place."""
    if not steps.is_search(step) or not is_node_result(result):
        return result
    size = len(encode(result))
    return result if size <= MAX_HEADER_BYTES else _too_large(cast(JsonObject, result), size)


def _too_large(result: JsonObject, size: int) -> JsonObject:
    message = f"the search found {size} bytes, {MAX_HEADER_BYTES} can be passed on; use a lower limit"
    return {
        "executionId": result["executionId"],
        "node": result["node"],
        "status": "failed",
        "error": {"code": "RESULT_TOO_LARGE", "message": message},
    }


def register_errback(app: Celery, runs: StepRuns) -> None:
    """Register the errback of pipelines; Celery calls it in the worker in which a step failed."""

    @app.task(name=FAILED_TASK, base=Task, lazy=False, shared=False)
    def failed(request: object, exc: BaseException, traceback: object, pipeline: str) -> None:  # noqa: ARG001 -- Celery's arguments
        runs.fail(pipeline, exc)
