"""What workers do for the nodes of a graph's run: begin, compute, settle, and send what may start next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from celery.exceptions import Ignore

from ditto_tasks.errors import Cancelled, DeadLettered, DittoError, OutcomeUnknown, PipelineError, raised
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.pipelines.base import EndStore
from ditto_tasks.pipelines.ends import tell_end
from ditto_tasks.pipelines.graph_functions import MoreFunctions
from ditto_tasks.pipelines.graph_plan import named
from ditto_tasks.pipelines.graph_records import MAX_DEATHS, GraphRecords
from ditto_tasks.pipelines.graph_values import Given, GraphState, Handed, Opening, Standing, Stopped
from ditto_tasks.pipelines.heartbeats import Heartbeats
from ditto_tasks.pipelines.outcomes import error_to_wire, is_node_result
from ditto_tasks.pipelines.steps import step_id
from ditto_tasks.pipelines.sweep import QUIET_MS
from ditto_tasks.sending import BrokerError
from ditto_tasks.task import OPTIONS_KEY

logger = logging.getLogger(__name__)

MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
REPEATS_ITS_OUTCOME: Final = (
    "INTERACTION"  # its ledger answers a second call of the same id: nothing acts twice
)

Send = Callable[["Message"], None]
Compute = Callable[[JsonObject], JsonValue]


@dataclass(frozen=True, slots=True)
class Message:
    """A node's task, ready to be published. It carries no input: the worker reads what the node is given."""

    run: str
    task_id: str
    node: str
    wire: JsonObject
    headers: JsonObject


@dataclass(frozen=True, slots=True)
class Delivery:
    """A node's task as a worker got it."""

    run: str
    step: str  # the node's id, from the second attempt on with its number
    domain: str
    redelivered: bool

    @property
    def node(self) -> str:
        return self.step.partition(".")[0]

    @property
    def attempt(self) -> int:
        return int(self.step.partition(".")[2] or 1)


class Settled(NamedTuple):
    """What a node gave, and its size."""

    value: JsonValue
    size: int


class GraphRuns:
    """Runs nodes so that each settles once, however often it is delivered."""

    def __init__(
        self,
        records: GraphRecords,
        answers: Callable[[], EndStore],
        send: Send,
        functions: MoreFunctions,
        on_iteration_end: Callable[[str], None],
    ) -> None:
        self.records = records
        self._answers = answers  # asked late: Celery opens its result backend on first use
        self._send = send
        self._functions = functions
        self._on_iteration_end = on_iteration_end  # told of a loop one of whose runs has ended
        self._heartbeats = Heartbeats(self._beat)

    def start(self, opening: Opening) -> None:
        """Record a run and publish the nodes that come first. Idempotent; RUN_EXISTS for another request."""
        if not self.records.open(opening) and not opening.parent:
            raise run_exists()
        self.go_on(opening.run)

    def go_on(self, run: str) -> None:
        """Publish what may start now."""
        self._publish(run, self.records.hand_out(run))

    def run_node(self, delivery: Delivery, compute: Compute) -> Settled:
        """Begin a node, compute what it gives, record that, and publish what may start after it.

        Raises what the node raises, and Ignore where a delivery is of no use: the node has settled, is at
        work elsewhere, or was sent anew.
        """
        given = self.records.begin(
            delivery.run,
            delivery.node,
            delivery.attempt,
            redelivered=delivery.redelivered,
            quiet_ms=QUIET_MS,
        )
        if given == "ended":
            raise PipelineError("PIPELINE_ENDED", "the run has ended, so this node does nothing")
        if not isinstance(given, Given):
            raise Ignore
        with self._heartbeats.during(step_id(delivery.run, delivery.node)):
            try:
                value = self._computed(given, compute)
                data = encode(value)
                if len(data) > MAX_OUTPUT_BYTES:
                    raise _too_large(len(data))
            except DittoError as error:
                self._raised(delivery, error, given.resumes)
                raise
        self._settled(delivery, value, data, given.resumes)
        return Settled(value, len(data))

    def _computed(self, given: Given, compute: Compute) -> JsonValue:
        specification = given.specification
        self._functions()  # what their module's extension opens is there before the first of them runs
        wire = specification.wire(given.input, given.outputs, self._functions)
        return compute({**wire, OPTIONS_KEY: {**specification.options, "deadlineMs": given.deadline_ms}})

    def _settled(self, delivery: Delivery, value: JsonValue, data: bytes, resumes: int) -> None:
        stopped = is_node_result(value) and cast(JsonObject, value)["status"] in ("cancelled", "timeout")
        how = Stopped(stopped, stopped, resumes)
        standing = self.records.settle(delivery.run, delivery.node, delivery.attempt, data, how)
        if standing is not None and standing.state in ("done", *(["cancelled"] if stopped else [])):
            self.announce(delivery.run)
        self._publish(delivery.run, standing)

    def _raised(self, delivery: Delivery, error: DittoError, resumes: int) -> None:
        may_have_acted = isinstance(error, OutcomeUnknown) or delivery.domain == REPEATS_ITS_OUTCOME
        how = Stopped(isinstance(error, Cancelled), not may_have_acted, resumes)
        wire = error_to_wire(named(error, delivery.node))
        state = self.records.raised(delivery.run, delivery.node, delivery.attempt, wire, how)
        if state == "running":  # resumed since: the node is to run again
            self.go_on(delivery.run)
        elif state is not None:
            self.announce(delivery.run)

    def tend(self, run: str, *, quiet_ms: int = QUIET_MS) -> bool:
        """What a sweep does for a run; True if there is none any more."""
        standing = self.records.tend(run, quiet_ms)
        if standing is None:
            return True
        if standing.state != "running":
            self.announce(run)
            return False
        if standing.now_ms >= standing.deadline_ms:
            message = "the run did not finish within its deadline"
            late = PipelineError("PIPELINE_DEADLINE_EXCEEDED", message)
            self.fail(run, late, resumes=standing.resumes)
        for node, attempt in standing.given_up:
            message = f"{MAX_DEATHS} workers died while they ran this node"
            self.give_up(run, node, attempt, DeadLettered("DEAD_LETTERED", message))
        self._publish(run, standing)
        return False

    def give_up(self, run: str, node: str, attempt: int, error: DeadLettered) -> None:
        """End a run at a node whose message is given up."""
        wire = error_to_wire(named(error, node))
        how = Stopped(stopped=False, renewed=False, resumes=0)
        if self.records.raised(run, node, attempt, wire, how) == "failed":
            self.announce(run)

    def fail(self, run: str, error: DittoError, *, resumes: int | None = None) -> None:
        """End a run with an error, unless it has ended, and tell whoever waits; see GraphRecords.end."""
        state: GraphState = "cancelled" if isinstance(error, Cancelled) else "failed"
        if self.records.end(run, state, error_to_wire(error), resumes=resumes):
            self.announce(run)

    def resume(self, run: str, timeout_ms: int, resumes: int) -> None:
        """Go on from what was settled, with a new deadline; see GraphRecords.resume.

        No end that it had before stands from then on, whoever still tells of it.
        """
        self.records.resume(run, timeout_ms, resumes)
        self._answers().withdraw_end(run, resumes)
        self.go_on(run)
        self.announce(run)  # of a run that has nothing left to do nobody else tells

    def announce(self, run: str) -> None:
        """Tell whoever waits how a run has ended: its caller, or the loop that it is an iteration of."""
        head = self.records.head(run)
        if head is None or head.state == "running":
            return
        if head.parent:
            self._on_iteration_end(head.parent)
        else:
            receipt: JsonObject = {"runId": run, "graph": head.graph}
            if not tell_end(self._answers(), run, head.resumes, receipt=receipt, error=head.error):
                return
        self.records.announced(run, head.resumes)

    def _publish(self, run: str, standing: Standing | None) -> None:
        if standing is None:
            return
        for handed in standing.handed:
            try:
                self._send(_message(run, handed, standing))
            except BrokerError:  # the sweep sends it again
                raise
            except DittoError as failure:
                self.fail(run, named(failure, handed.node), resumes=standing.resumes)
                return

    def _beat(self, step: str) -> None:
        run, _, node = step.rpartition(".")
        self.records.beat(run, node)


def sweep_graphs(shard: int, runs: GraphRuns, *, quiet_ms: int = QUIET_MS) -> None:
    """Look after every run of a shard; meant for the shard's owner, every few seconds. Idempotent."""
    for run in runs.records.tracked(shard):
        with unreadable_is_logged():
            if runs.tend(run, quiet_ms=quiet_ms):
                runs.records.forget(run, shard)


@contextmanager
def unreadable_is_logged() -> Iterator[None]:
    """Let one run that cannot be read, as of another version, keep nobody from looking after the others."""
    try:
        yield
    except BrokerError:  # of all runs
        raise
    except (DittoError, LookupError, TypeError, ValueError) as exc:
        logger.warning("A run could not be looked after: %s", raised(exc))


def _message(run: str, handed: Handed, standing: Standing) -> Message:
    specification = handed.specification
    scope: JsonObject = {} if specification.scope is None else {"scope": specification.scope}
    options: JsonObject = {**specification.options, "deadlineMs": standing.deadline_ms}
    step = handed.node if handed.attempt == 1 else f"{handed.node}.{handed.attempt}"
    return Message(
        run, step_id(run, step), specification.node, {**scope, OPTIONS_KEY: options}, standing.headers
    )


def run_exists() -> PipelineError:
    """The error for an id that was given to another run."""
    return PipelineError("RUN_EXISTS", "another graph, input or scope is run under this id")


def run_not_found() -> PipelineError:
    """The error for a run that has no record."""
    return PipelineError("RUN_NOT_FOUND", "there is no such run, or its record has expired")


def _too_large(size: int) -> PipelineError:
    return PipelineError("RESULT_TOO_LARGE", f"a node gave {size} bytes, {MAX_OUTPUT_BYTES} are kept")
