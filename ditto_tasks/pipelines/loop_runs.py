"""What workers do for a loop's run between the runs of its graphs."""

from __future__ import annotations

from collections.abc import Callable

from ditto_tasks.admission import Admission
from ditto_tasks.errors import Cancelled, DittoError, PipelineError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Scope, from_wire
from ditto_tasks.pipelines.base import EndStore
from ditto_tasks.pipelines.ends import tell_end
from ditto_tasks.pipelines.graph_functions import MoreFunctions
from ditto_tasks.pipelines.graph_runs import GraphRuns, run_exists, unreadable_is_logged
from ditto_tasks.pipelines.graph_values import GraphState, Opening
from ditto_tasks.pipelines.loop_records import LoopHead, LoopOpening, LoopRecord, LoopRecords
from ditto_tasks.pipelines.loops import LoopFunctions, iteration_id, limit_reached
from ditto_tasks.pipelines.outcomes import error_from_wire, error_to_wire
from ditto_tasks.pipelines.run_admission import run_admission
from ditto_tasks.sending import BrokerError


class LoopRuns:
    """Goes round: each iteration is a run of a graph with an id that follows from the loop's.

    An iteration that was resumed as often as its loop is what the loop goes on with. One that was less often
    belongs to a loop that has ended: however it ended, it is resumed.
    """

    def __init__(
        self,
        records: LoopRecords,
        graphs: GraphRuns,
        answers: Callable[[], EndStore],
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
        """Do what is to be done now: begin or resume an iteration, or take in what one gave. Idempotent."""
        head = self.records.head(run)
        while head is not None and head.state == "running":
            try:
                if not self._goes_on(head):
                    return
            except BrokerError:  # the sweep tries it again
                raise
            except DittoError as failure:
                self.fail(head, failure)
                return
            head = self.records.head(run)

    def _goes_on(self, loop: LoopHead) -> bool:
        """Begin, resume or await the iteration, or take in what it gave; True if there may be more to do."""
        run = iteration_id(loop.run, loop.iteration)
        iteration = self._graphs.records.head(run)
        if iteration is not None and iteration.state != "done":
            if iteration.resumes >= loop.resumes and iteration.error is not None:
                raise _of_iteration(error_from_wire(iteration.error), loop.iteration + 1)
            if iteration.resumes < loop.resumes and loop.left_ms > 0:  # else the sweep ends it
                self._graphs.resume(run, loop.left_ms, loop.resumes)
            return False
        record = self.records.load(loop.run)
        if record is None or not record.head.stands_as(loop):
            return True
        if iteration is not None:
            self._take_in(record, run)
        elif loop.left_ms > 0:
            self._begin(record, run)
        return iteration is not None

    def _begin(self, record: LoopRecord, run: str) -> None:
        loop = record.head
        if loop.iteration >= record.max_iterations:
            raise limit_reached(record.max_iterations)
        scope = None if loop.scope is None else from_wire(Scope, loop.scope)
        kept_ms = loop.left_ms + self.records.ttl_ms
        self._admit(run_admission(run, scope, shard=record.shard, ttl_ms=kept_ms))
        functions = LoopFunctions(record.loop, self._functions)
        opening = Opening(
            run=run,
            graph=functions.graph(record.value),
            input=functions.input(record.value),
            shard=record.shard,
            timeout_ms=loop.left_ms,
            concurrency=record.concurrency,
            scope=scope,
            headers=loop.headers,
            parent=loop.run,
            resumes=loop.resumes,
        )
        self._graphs.start(opening)

    def _take_in(self, record: LoopRecord, run: str) -> None:
        loop = record.head
        functions = LoopFunctions(record.loop, self._functions)
        graphs = self._graphs.records
        outputs = graphs.outputs(run, [node for node, _, _ in graphs.plan(run)])
        value = functions.next_state(record.value, outputs)
        done = functions.is_done(value)
        if self.records.step(loop.run, loop.iteration, value, done=done) == "done":
            self.announce(loop.run)

    def tend(self, run: str) -> bool:
        """What a sweep does for a run; True if there is none any more."""
        head = self.records.head(run)
        if head is None:
            return True
        if head.state != "running":
            self.announce(run)
        elif head.now_ms >= head.deadline_ms:
            message = "the run did not finish within its deadline"
            self.fail(head, PipelineError("PIPELINE_DEADLINE_EXCEEDED", message))
        else:
            self.go_on(run)
        return False

    def fail(self, seen: LoopHead, error: DittoError) -> bool:
        """End a run that is as it was seen, and its iteration with it; tell whoever waits. True if so.

        See LoopRecords.end. An iteration that was resumed meanwhile is left alone.
        """
        state: GraphState = "cancelled" if isinstance(error, Cancelled) else "failed"
        if not self.records.end(seen, state, error_to_wire(error)):
            return False
        self._graphs.fail(iteration_id(seen.run, seen.iteration), error, resumes=seen.resumes)
        self.announce(seen.run)
        return True

    def resume(self, run: str, timeout_ms: int, resumes: int) -> None:
        """Go on with the iteration at which a run ended, with a new deadline; see LoopRecords.resume.

        No end that it had before stands from then on, whoever still tells of it.
        """
        self.records.resume(run, timeout_ms, resumes)
        self._answers().withdraw_end(run, resumes)
        self.go_on(run)

    def announce(self, run: str) -> None:
        """Tell whoever waits how a run has ended."""
        loop = self.records.head(run)
        if loop is None or loop.state == "running":
            return
        receipt: JsonObject = {"runId": run, "loop": loop.name}
        if tell_end(self._answers(), run, loop.resumes, receipt=receipt, error=loop.error):
            self.records.announced(run, loop.resumes)


def _of_iteration(error: DittoError, iteration: int) -> DittoError:
    return type(error)(error.code, error.message, {**(error.details or {}), "iteration": iteration})


def sweep_loops(shard: int, runs: LoopRuns) -> None:
    """Look after every loop of a shard; meant for the shard's owner, every few seconds. Idempotent."""
    for run in runs.records.tracked(shard):
        with unreadable_is_logged():
            if runs.tend(run):
                runs.records.forget(run, shard)
