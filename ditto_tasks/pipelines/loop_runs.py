"""What workers do for a loop's run between the runs of its graphs."""

from __future__ import annotations

from collections.abc import Callable

from celery import states

from ditto_tasks.admission import Admission
from ditto_tasks.errors import Cancelled, DittoError, PipelineError
from ditto_tasks.models import Scope, from_wire
from ditto_tasks.pipelines.base import AnswerStore
from ditto_tasks.pipelines.graph_functions import MoreFunctions
from ditto_tasks.pipelines.graph_runs import GraphRuns, run_exists, run_not_found, unreadable_is_logged
from ditto_tasks.pipelines.graph_values import GraphState, Opening
from ditto_tasks.pipelines.loop_records import LoopOpening, LoopRecord, LoopRecords
from ditto_tasks.pipelines.loops import LoopFunctions, iteration_id, limit_reached
from ditto_tasks.pipelines.outcomes import error_from_wire, error_to_wire
from ditto_tasks.pipelines.run_admission import run_admission


class LoopRuns:
    """Goes round: each iteration is a run of a graph with an id that follows from the loop's."""

    def __init__(
        self,
        records: LoopRecords,
        graphs: GraphRuns,
        answers: Callable[[], AnswerStore],
        functions: MoreFunctions,
        admit: Callable[[Admission], None],
    ) -> None:
        self.records = records
        self._admit = admit
        self._graphs = graphs
        self._answers = answers
        self._functions = functions

    def start(self, opening: LoopOpening) -> None:
        """Record a run and start its first iteration. Idempotent; RUN_EXISTS for another request."""
        if not self.records.open(opening):
            raise run_exists()
        self.go_on(opening.run)

    def go_on(self, run: str) -> None:
        """Do what is to be done now: begin an iteration, or take in what one gave. Idempotent."""
        record = self.records.load(run)
        while record is not None and record.state == "running":
            try:
                if not self._takes_in(record):
                    return
            except DittoError as failure:
                self.fail(run, failure, seen_deadline_ms=record.deadline_ms)
                return
            record = self.records.load(run)

    def _takes_in(self, record: LoopRecord) -> bool:
        """Begin the iteration, or take in what it gave; True in that case."""
        if record.iteration >= record.max_iterations:
            raise limit_reached(record.max_iterations)
        run = iteration_id(record.run, record.iteration)
        head = self._graphs.records.head(run)
        if head is None:
            self._begin(record, run)
            return False
        if head.state == "running":
            return False
        if head.error is not None:
            raise _of_iteration(error_from_wire(head.error), record.iteration + 1)
        self._take_in(record, run)
        return True

    def _begin(self, record: LoopRecord, run: str) -> None:
        left_ms = record.deadline_ms - record.now_ms
        if left_ms <= 0:  # the sweep ends it
            return
        scope = None if record.scope is None else from_wire(Scope, record.scope)
        kept_ms = left_ms + self.records.ttl_ms
        self._admit(run_admission(run, scope, shard=record.shard, ttl_ms=kept_ms))
        functions = LoopFunctions(record.loop, self._functions)
        opening = Opening(
            run=run,
            graph=functions.graph(record.value),
            input=functions.input(record.value),
            shard=record.shard,
            timeout_ms=left_ms,
            concurrency=record.concurrency,
            scope=scope,
            headers=record.headers,
            parent=record.run,
        )
        self._graphs.start(opening)

    def _take_in(self, record: LoopRecord, run: str) -> None:
        functions = LoopFunctions(record.loop, self._functions)
        graphs = self._graphs.records
        outputs = graphs.outputs(run, [node for node, _, _ in graphs.plan(run)])
        value = functions.next_state(record.value, outputs)
        done = functions.is_done(value)
        if self.records.step(record.run, record.iteration, value, done=done) == "done":
            self.announce(record.run)

    def tend(self, run: str) -> bool:
        """What a sweep does for a run; True if there is none any more."""
        record = self.records.load(run)
        if record is None:
            return True
        if record.state != "running":
            self.announce(run)
            return False
        if record.now_ms >= record.deadline_ms:
            message = "the run did not finish within its deadline"
            late = PipelineError("PIPELINE_DEADLINE_EXCEEDED", message)
            self.fail(run, late, seen_deadline_ms=record.deadline_ms)
        else:
            self.go_on(run)
        return False

    def fail(self, run: str, error: DittoError, *, seen_deadline_ms: int | None = None) -> None:
        """End a run with an error, unless it has ended, and its iteration with it; tell whoever waits.

        See LoopRecords.end for the deadline.
        """
        state: GraphState = "cancelled" if isinstance(error, Cancelled) else "failed"
        if not self.records.end(run, state, error_to_wire(error), seen_deadline_ms=seen_deadline_ms):
            return
        loop = self.records.outline(run)
        if loop is not None:
            self._graphs.fail(iteration_id(run, loop.settled), error)
        self.announce(run)

    def resume(self, run: str, timeout_ms: int) -> GraphState:
        """Go on with the iteration at which a run ended, with a new deadline; see GraphRuns.resume."""
        loop = self.records.outline(run)
        if loop is None:
            raise run_not_found()
        if loop.state in ("failed", "cancelled"):
            # its iteration first: whoever looks after the loop would fail it again for a failed one
            iteration = iteration_id(run, loop.settled)
            if self._graphs.records.head(iteration) is not None:
                self._graphs.resume(iteration, timeout_ms)
            self._answers().forget(run)  # before anything can store another end
            self.records.resume(run, timeout_ms)
            self.go_on(run)
        return loop.state

    def announce(self, run: str) -> None:
        """Tell whoever waits how a run has ended."""
        loop = self.records.outline(run)
        if loop is None or loop.state == "running":
            return
        if loop.error is None:
            receipt = {"runId": run, "loop": loop.name}  # the state stays where it is
            self._answers().store_result(run, receipt, states.SUCCESS)
        else:
            self._answers().store_result(run, error_from_wire(loop.error), states.FAILURE)
        self.records.announced(run)


def _of_iteration(error: DittoError, iteration: int) -> DittoError:
    return type(error)(error.code, error.message, {**(error.details or {}), "iteration": iteration})


def sweep_loops(shard: int, runs: LoopRuns) -> None:
    """Look after every loop of a shard; meant for the shard's owner, every few seconds. Idempotent."""
    for run in runs.records.tracked(shard):
        with unreadable_is_logged():
            if runs.tend(run):
                runs.records.forget(run, shard)
