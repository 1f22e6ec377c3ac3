"""A run: sends what its plan lets it, hears what was answered, and can be taken up again at any point.

Nothing is kept but the rows: whoever repeats a run enumerates its scopes again and leaves out those with
a final row. A call that is sent twice has no second effect.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast
from uuid import uuid4

from celery import current_task, states

from ditto_tasks.batch.models import CompressRequest, Row, RunInput
from ditto_tasks.batch.opening import OpenBatch
from ditto_tasks.batch.pacing import Pace
from ditto_tasks.batch.planning import LARGE, SMALL, Caps, Planned, Planner
from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.batch.selection import indexed_scopes
from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, DittoError, PublishError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.settings import Settings
from ditto_tasks.task import TaskCall

HEAR_S: Final = 0.5  # waiting for the first answer of a turn
REST: Final = 0.5  # beside others, of the time that the last call took: theirs meet one call at most
LOOK_AFTER_S: Final = 10.0  # a call is asked about that was not answered for so long, and then less often
LOOK_AT_MOST_S: Final = 60.0  # far below the time for which errors are stored
FAILURES: Final = 3  # of a call, before its error is its scopes' end
TURN_S: Final = 20.0  # of BATCH.RUN, which then sends itself again
DOUBT_S: Final = 600.0  # more, while calls fail; both together are far below any visibility timeout


class App(Protocol):
    """What a run needs of the Celery application."""

    def send_task(self, name: str, *, kwargs: JsonObject, task_id: str, ignore_result: bool) -> object:
        """Publish a call; QUEUE_FULL if its shard takes no more. Errors are stored in any case."""

    def AsyncResult(self, task_id: str) -> Any:  # noqa: N802 -- Celery's name and result
        """The stored result of a call."""


@dataclass(slots=True)
class _Sent:
    planned: Planned
    look_at_s: float
    wait_s: float = LOOK_AFTER_S


@dataclass(slots=True)
class CompressRun:
    """One run in one process."""

    app: App
    rows: BatchRows
    run: str
    request: CompressRequest
    planner: Planner
    pace: Pace
    clock: Callable[[], float] = time.monotonic
    rest: Callable[[float], None] = time.sleep
    _out: dict[str, _Sent] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)  # scope hash -> failed calls; 0: one was lost

    def add(self, scopes: Iterable[Scope]) -> None:
        """These are to get a row."""
        self.planner.read(scopes)

    @property
    def is_done(self) -> bool:
        return self.planner.is_done

    @property
    def is_in_doubt(self) -> bool:
        """Whether a call failed, was lost or is late: whoever goes on instead has to find out again."""
        return bool(self._failures) or any(sent.wait_s > LOOK_AFTER_S for sent in self._out.values())

    def turn(self) -> list[Row]:
        """Send what may be sent, wait for answers for a moment, and return the rows that are final now."""
        final = self._send()
        since_s = self.clock()
        answers = self.rows.hear(HEAR_S)
        heard_s = self.clock()
        for answer in answers:
            self.pace.heard(beside=answer.beside, now_s=heard_s)
        final += self._answered([answer.task_id for answer in answers])
        for task_id in [task_id for task_id, sent in self._out.items() if sent.look_at_s < self.clock()]:
            final += self._look(task_id)
        if answers and self.pace.gives_way:
            self.rest(REST * (heard_s - since_s))
        return final

    def _send(self) -> list[Row]:
        final: list[Row] = []
        sizing = SMALL if self.pace.is_least else LARGE
        for planned in self.planner.next(self.pace.limit, sizing):
            task_id = str(uuid4())
            try:
                self.app.send_task(**self._call(planned), task_id=task_id, ignore_result=True)  # rows tell
            except ContextError as problem:
                if problem.code != "QUEUE_FULL":
                    raise
                self.planner.refuse(planned)  # others' calls fill the shard; it is tried again a turn later
                continue
            except PublishError as problem:
                if problem.code != "MESSAGE_TOO_LARGE":  # which an id alone can be
                    raise
                self._out[task_id] = _Sent(planned, self.clock())
                final += self._ended(task_id, problem)
                continue
            self._out[task_id] = _Sent(planned, self.clock() + LOOK_AFTER_S)
        return final

    def _call(self, planned: Planned) -> dict[str, Any]:  # send_task's keyword arguments
        ceilings = {"maxItems": self.request.max_items, "maxTokens": self.request.max_tokens}
        about: JsonObject = {"run": self.run, **{name: n for name, n in ceilings.items() if n is not None}}
        about["scopes"] = [to_wire(scope) for scope in planned.scopes]
        if planned.shard is None:
            return {"name": "BATCH.SCAN", "kwargs": {**about, "dryRun": self.request.dry_run}}
        return {"name": "BATCH.COMPRESS", "kwargs": {**about, "renewTtl": self.request.renew_ttl}}

    def _answered(self, task_ids: Iterable[str]) -> list[Row]:
        """The final rows of these calls' scopes; the others are sent on their way."""
        # of some it is not known: they are of an earlier process, or were answered already
        sent = [self._out.pop(task_id) for task_id in task_ids if task_id in self._out]
        for each in sent:
            self.planner.settle(each.planned)
        scopes = [scope for each in sent for scope in each.planned.scopes]
        final = []
        rows = self.rows.get([scope_key(scope) for scope in scopes])
        for scope, row in zip(scopes, rows, strict=True):
            if row is None and scope_key(scope) in self._failures:
                self.planner.read_alone([scope])
            elif row is None:
                self.planner.read([scope])
            elif row.is_final:
                self._failures.pop(row.scope, None)
                final.append(row)
            else:
                self._compress(scope, row)
        return final

    def _look(self, task_id: str) -> list[Row]:
        """Ask about a call that is late: it may have failed, be lost with its worker, or still wait."""
        sent = self._out[task_id]
        stored = self.app.AsyncResult(task_id)
        if stored.state in states.READY_STATES:
            return self._ended(task_id, stored.result)
        names = [scope_key(scope) for scope in sent.planned.scopes]
        if sent.planned.shard is None:  # a stock queue loses what a killed worker had taken
            return self._lost(task_id, names)
        if any(row is not None and row.is_final for row in self.rows.get(names)):
            return self._answered([task_id])  # word of it went to another process of this run, or nowhere
        sent.wait_s = min(2 * sent.wait_s, LOOK_AT_MOST_S)
        sent.look_at_s = self.clock() + sent.wait_s
        return []  # a shard's call is in Redis until it has ended, and then has a row at least

    def _lost(self, task_id: str, names: list[str]) -> list[Row]:
        """A scan has no answer: its scopes go alone now, which shows whose scans begin and never end."""
        for name in names:
            self._failures.setdefault(name, 0)
        if len(names) == 1 and self.rows.has_begun(names[0], task_id):
            self._fail(names[0], "DEAD_LETTERED", told=task_id)
        return self._answered([task_id])

    def _ended(self, task_id: str, result: object) -> list[Row]:
        planned = self._out[task_id].planned
        code = result.code if isinstance(result, DittoError) else type(result).__name__
        for scope in planned.scopes if isinstance(result, BaseException) else ():
            killed = code == "DEAD_LETTERED" and len(planned.scopes) == 1  # else it may be another's fault
            self._fail(scope_key(scope), code, told=task_id, times=FAILURES if killed else 1)
        return self._answered([task_id])

    def _fail(self, scope_hash: str, code: str, *, told: str, times: int = 1) -> None:
        self._failures[scope_hash] = self._failures.get(scope_hash, 0) + times
        if self._failures[scope_hash] >= FAILURES:
            self.rows.put([Row(scope=scope_hash, status="failed", code=code)], told=told)

    def _compress(self, scope: Scope, row: Row) -> None:
        failed = scope_key(scope) in self._failures  # then it goes alone, and so do its neighbours
        self.planner.compress(scope, sys.maxsize if failed else tokens_of(row))


def tokens_of(row: Row) -> int:
    """How many tokens a scan counted, for calls of about the same size."""
    return (row.before.tokens or 0) if row.before else 0


def open_run(
    app: App, settings: Settings, rows: BatchRows, run: str, request: CompressRequest
) -> CompressRun:
    """A run that has sent nothing yet."""
    rows.begin(request)
    batch = settings.runtime.batch
    planner = Planner(Caps(shards=batch.max_shards, scans=batch.max_scans), settings.runtime.shards.count)
    pace = Pace(batch.outstanding_beside_others, batch.max_outstanding, batch.quiet_ms / 1000)
    return CompressRun(app, rows, run, request, planner, pace)


def left_over(scopes: Iterable[Scope], done: set[str]) -> Iterator[Scope]:
    """Those without a final row, each once."""
    seen = set(done)
    for scope in scopes:
        scope_hash = scope_key(scope)
        if scope_hash not in seen:
            seen.add(scope_hash)
            yield scope


def run_for_a_while(call: TaskCall) -> JsonValue:
    """BATCH.RUN: a turn of a whole run, which sends itself again until every scope has its row.

    Rows stay in Redis; `ditto compress --run ID` with the same options writes them to a report.
    """
    wire = dict(call.wire)
    run = from_wire(RunInput, wire).run or call.root_id
    wire.pop("run", None)
    request = from_wire(CompressRequest, wire)
    batch = cast("OpenBatch", call.dependencies.domain("batch"))
    settings, rows = call.dependencies.settings, batch.rows(run)
    work = open_run(current_task.app, settings, rows, run, request)
    scopes = indexed_scopes(batch.index(), request, ttl_ms=settings.context.cache.ttl_ms)
    work.add(left_over(scopes, {row.scope for row in rows.final()}))
    ends_s = time.monotonic() + TURN_S
    latest_s = ends_s + DOUBT_S
    while not work.is_done and call.interruption() is None:
        if time.monotonic() >= (latest_s if work.is_in_doubt else ends_s):
            break
        work.turn()
    if not work.is_done and call.interruption() is None:
        current_task.app.send_task(call.node, kwargs={**wire, "run": run}, task_id=str(uuid4()))
    return {"run": run, "done": work.is_done}
