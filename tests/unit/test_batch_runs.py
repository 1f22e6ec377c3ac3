"""A run in one process: how much it has out, what it hears, and what it does about calls that end badly."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from celery import states
from support.workers import BROKER_DB

from ditto_tasks.batch.models import CompressRequest, Row, Sizes
from ditto_tasks.batch.planning import LARGE, SMALL
from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.batch.running import FAILURES, LOOK_AFTER_S, CompressRun, open_run
from ditto_tasks.batch.schedule import beat_schedule
from ditto_tasks.canonical import scope_key
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import DittoError
from ditto_tasks.models import Scope
from ditto_tasks.settings import default_settings
from ditto_tasks.settings.runtime import Batch, Nightly, Shards

RUN = "r1"
KILLED = DittoError("DEAD_LETTERED", "has killed its worker three times")


@dataclass
class Stored:
    """A result as a caller sees it."""

    state: str
    result: object = None


@dataclass
class Postbox:
    """An application that keeps what it is given to send, and says what became of it."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    results: dict[str, Stored] = field(default_factory=dict)

    def send_task(self, name: str, **options: Any) -> None:
        self.sent.append({"name": name, **options})

    def AsyncResult(self, task_id: str) -> Stored:  # noqa: N802 -- Celery's name
        return self.results.get(task_id, Stored(states.PENDING))

    def take(self) -> list[dict[str, Any]]:
        """What was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


@dataclass
class Running:
    """A run of one shard, what it sends, and a clock that stands still unless it is moved."""

    run: CompressRun
    rows: BatchRows
    postbox: Postbox
    now_s: float = 0.0

    def turn(self, *news: str, beside: bool = False) -> tuple[list[dict[str, Any]], list[Row]]:
        """A turn in which it hears of these calls; what it sends, and the rows that it returns."""
        for task_id in news:
            self.rows.put([], told=task_id, beside=beside)
        final = self.run.turn()
        return self.postbox.take(), final


@pytest.fixture
def running(server: EmbeddedServer) -> Iterator[Running]:
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as broker:
        rows, postbox = BatchRows(broker, deployment="default", run=RUN), Postbox()
        settings = default_settings()
        runtime = settings.runtime.model_copy(update={"shards": Shards(count=1)})
        settings = settings.model_copy(update={"runtime": runtime})
        opened = open_run(postbox, settings, rows, RUN, CompressRequest(max_items=5))
        made = Running(opened, rows, postbox)
        opened.clock = lambda: made.now_s
        yield made


def scopes(number: int) -> list[Scope]:
    return [Scope(session_id=f"a:{place}") for place in range(number)]


def over(*scopes: Scope) -> list[Row]:
    return [Row(scope=scope_key(scope), status="over", before=Sizes(items=9, tokens=9)) for scope in scopes]


def sessions(sent: list[dict[str, Any]]) -> list[list[str]]:
    """The sessions of each call that was sent."""
    return [[scope["sessionId"] for scope in call["kwargs"]["scopes"]] for call in sent]


def test_a_run_begins_with_one_small_call_and_then_takes_more(running: Running) -> None:
    """What it has out grows with each answer, as long as no worker is at work for others."""
    running.run.add(scopes(1_000))
    (first,), _ = running.turn()
    assert (first["name"], len(first["kwargs"]["scopes"])) == ("BATCH.SCAN", SMALL.scan)
    assert running.turn(first["task_id"]) == ([], [])
    sent, _ = running.turn()
    assert [len(call["kwargs"]["scopes"]) for call in sent] == [LARGE.scan] * 2


def test_a_run_takes_little_beside_others(running: Running) -> None:
    """One worker that tells of others' calls is enough, until it has been quiet for a while."""
    running.run.add(scopes(1_000))
    (first,), _ = running.turn()
    running.turn(first["task_id"])
    (second, third), _ = running.turn()
    running.turn(second["task_id"], beside=True)
    assert running.turn(third["task_id"]) == ([], [])
    (alone,), _ = running.turn()
    assert len(alone["kwargs"]["scopes"]) == SMALL.scan
    running.now_s += default_settings().runtime.batch.quiet_ms / 1000
    running.turn(alone["task_id"])
    assert [len(call["kwargs"]["scopes"]) for call in running.turn()[0]] == [LARGE.scan] * 2


def test_what_a_call_did_not_reach_is_sent_again(running: Running) -> None:
    """Scopes without a row are scanned again, those that are over budget compressed, until each has ended."""
    few = scopes(3)
    running.run.add(few)
    (scan,), _ = running.turn()
    ended = Row(scope=scope_key(few[0]), status="unchanged")
    running.rows.put([ended, *over(few[1])], told=scan["task_id"])
    assert running.run.turn() == [ended]
    (again, compression), _ = running.turn()
    assert (again["name"], compression["name"]) == ("BATCH.SCAN", "BATCH.COMPRESS")
    assert sessions([again, compression]) == [["a:2"], ["a:1"]]
    rest = [Row(scope=scope_key(scope), status="compressed") for scope in few[1:]]
    running.rows.put(rest, told=again["task_id"])
    running.rows.put([], told=compression["task_id"])
    assert running.run.turn() == rest[::-1]
    assert running.run.is_done


def test_a_scope_that_kills_workers_takes_no_other_with_it(running: Running) -> None:
    """A call of several scopes that was given up goes again scope by scope: what fails alone has failed."""
    few = scopes(3)
    running.run.add(few)
    (scan,), _ = running.turn()
    running.rows.put(over(*few), told=scan["task_id"])
    running.run.turn()
    (together,), _ = running.turn()
    assert sessions([together]) == [["a:0", "a:1", "a:2"]]
    ends = {"a:0": "compressed", "a:1": "DEAD_LETTERED", "a:2": "compressed"}
    assert fail(running, together) == []
    seen = {}
    while not running.run.is_done:
        for call in running.turn()[0]:
            ((name,),) = sessions([call])
            if ends[name] == "DEAD_LETTERED":
                final = fail(running, call)
            else:
                running.rows.put([Row(scope=hash_of(name), status="compressed")], told=call["task_id"])
                final = running.run.turn()
            seen.update({row.scope: row.code or row.status for row in final})
    assert seen == {hash_of(name): end for name, end in ends.items()}


def test_a_call_that_fails_again_and_again_is_its_scopes_end(running: Running) -> None:
    """An error that passes costs a scope nothing; one that stays ends it with its code."""
    (scope,) = scopes(1)
    running.run.add([scope])
    final: list[Row] = []
    for attempt in range(FAILURES):
        (call,), _ = running.turn()
        assert (attempt, final) == (attempt, [])
        final = fail(running, call, DittoError("STATE_BACKEND_UNAVAILABLE", "away"))
    assert [(row.status, row.code) for row in final] == [("failed", "STATE_BACKEND_UNAVAILABLE")]


def fail(running: Running, call: dict[str, Any], error: DittoError = KILLED) -> list[Row]:
    """The call has ended with an error, which the run finds when it asks; the rows that it returns then."""
    running.postbox.results[call["task_id"]] = Stored(states.FAILURE, error)
    running.now_s += LOOK_AFTER_S + 1
    return running.run.turn()


def hash_of(session: str) -> str:
    return scope_key(Scope(session_id=session))


def test_the_nightly_run_is_an_entry_of_beat() -> None:
    """Without the setting beat has nothing of ours to do; with it BATCH.RUN gets the options."""
    settings = default_settings()
    assert beat_schedule(settings) == {}
    batch = Batch(nightly=Nightly(hour=4, match="a:", max_items=50))
    runtime = settings.runtime.model_copy(update={"batch": batch})
    (entry,) = beat_schedule(settings.model_copy(update={"runtime": runtime})).values()
    assert (entry["task"], entry["kwargs"]) == ("BATCH.RUN", {"match": "a:", "maxItems": 50})
    assert entry["schedule"].hour == {4}
