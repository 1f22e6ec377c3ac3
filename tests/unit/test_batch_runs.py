"""A run in one process: how much it has out, what it hears, and what it does about calls that end badly."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
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
from ditto_tasks.errors import ContextError, DittoError, PublishError
from ditto_tasks.models import Scope
from ditto_tasks.settings import default_settings
from ditto_tasks.settings.runtime import Batch, Nightly, Shards
from ditto_tasks.sharding import shard_of, shard_queue

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
    full: set[str] = field(default_factory=set)  # queues of two shards
    too_large: str | None = None  # a session

    @staticmethod
    def shard(call: dict[str, Any]) -> str | None:
        """The queue of a compression, where there are two shards."""
        if call["name"] != "BATCH.COMPRESS":
            return None
        return shard_queue(shard_of(scope_key(call["kwargs"]["scopes"][0]), 2))

    def send_task(self, name: str, **options: Any) -> None:
        if self.shard({"name": name, **options}) in self.full:
            raise ContextError("QUEUE_FULL", "too many calls are waiting for this shard")
        ids = [scope["sessionId"] for scope in options["kwargs"]["scopes"]]
        if self.too_large in ids:
            raise PublishError("MESSAGE_TOO_LARGE", "5 bytes, over 4")
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


def sent_together(running: Running, few: list[Scope]) -> dict[str, Any]:
    """The one compression that is sent after a scan has found these over budget."""
    running.run.add(few)
    (scan,), _ = running.turn()
    running.rows.put(over(*few), told=scan["task_id"])
    running.run.turn()
    (together,), _ = running.turn()
    return together


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


def test_a_run_rests_between_its_calls_beside_others(running: Running) -> None:
    """For half of what a call took; alone it goes on at once, and without an answer there is no rest."""
    rests: list[float] = []
    ticks = count()
    running.run.rest = rests.append
    running.run.clock = lambda: float(next(ticks))
    running.run.add(scopes(1_000))
    (first,), _ = running.turn()
    running.turn(first["task_id"])
    (second, _third), _ = running.turn()
    assert rests == []
    running.turn(second["task_id"], beside=True)
    assert rests == [0.5]
    running.turn()
    assert rests == [0.5]


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
    together = sent_together(running, scopes(3))
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


def test_word_that_went_elsewhere_is_not_waited_for(running: Running) -> None:
    """The news of a compression is lost, or heard by a second process of the run: its rows tell."""
    few = scopes(2)
    together = sent_together(running, few)
    ended = Row(scope=scope_key(few[0]), status="compressed")
    running.rows.put([ended], told="of another process")
    running.now_s += LOOK_AFTER_S + 1
    assert running.run.turn() == [ended]
    assert sessions(running.turn()[0]) == [["a:1"]]
    assert together["name"] == "BATCH.COMPRESS"


def test_a_scan_that_waits_is_no_failure(running: Running) -> None:
    """A scan without an answer goes again, each scope alone, however often: no worker may have taken it."""
    running.run.add(scopes(2))
    running.turn()
    for _ in range(3 * FAILURES):
        (alone,) = pass_by(running)
        assert len(alone["kwargs"]["scopes"]) == 1
    for _ in range(2):
        running.rows.put(
            [
                Row(scope=scope_key(Scope.parse(scope)), status="unchanged")
                for scope in alone["kwargs"]["scopes"]
            ],
            told=alone["task_id"],
        )
        running.run.turn()
        alone, *_ = running.turn()[0] or [alone]
    assert running.run.is_done


def test_a_scope_that_kills_workers_in_its_scan_takes_no_other_with_it(running: Running) -> None:
    """Scans are lost with their worker. A scope whose scans begin alone and never end has failed."""
    few = scopes(3)
    running.run.add(few)
    (together,), _ = running.turn()
    assert sessions([together]) == [["a:0", "a:1", "a:2"]]
    seen: dict[str, str] = {}
    calls = pass_by(running)
    while not running.run.is_done:
        (call,) = calls
        ((name,),) = sessions(calls)
        running.rows.begin_scan(hash_of(name), call["task_id"])
        if name == "a:1":
            running.now_s += LOOK_AFTER_S + 1
        else:
            running.rows.put([Row(scope=hash_of(name), status="unchanged")], told=call["task_id"])
        final = running.run.turn()
        seen.update({row.scope: row.code or row.status for row in final})
        calls = running.turn()[0]
    ends = {"a:0": "unchanged", "a:1": "DEAD_LETTERED", "a:2": "unchanged"}
    assert seen == {hash_of(name): end for name, end in ends.items()}
    assert not running.run.is_in_doubt


def test_scans_that_fail_go_alone(running: Running) -> None:
    """A record that can't be read ends its own scope, and none of those that were read with it."""
    few = scopes(2)
    running.run.add(few)
    (together,), _ = running.turn()
    assert fail(running, together, DittoError("STATE_BACKEND_ERROR", "of another type")) == []
    assert running.run.is_in_doubt
    assert [len(names) for names in sessions(running.turn()[0])] == [1]


def test_scopes_that_are_too_much_for_a_message_go_alone(running: Running) -> None:
    """Ids have no greatest length: what can't be sent even alone has failed, and the others have not."""
    few = scopes(3)
    running.postbox.too_large = "a:1"
    running.run.add(few)
    seen: dict[str, str] = {}
    while not running.run.is_done:
        sent, final = running.turn()
        for call in sent:
            ((name,),) = sessions([call])
            running.rows.put([Row(scope=hash_of(name), status="unchanged")], told=call["task_id"])
        seen.update({row.scope: row.code or row.status for row in final})
    ends = {"a:0": "unchanged", "a:1": "MESSAGE_TOO_LARGE", "a:2": "unchanged"}
    assert seen == {hash_of(name): end for name, end in ends.items()}


def test_a_full_shard_holds_no_other_up(running: Running) -> None:
    """Its calls are refused: the other shards' go, and its own keep their size and their place."""
    few = [Scope(session_id=f"a:{number}") for number in range(8)]
    running.run.planner.shard_count = 2
    first = shard_of(hash_of("a:0"), 2)  # a run sends what it has of this shard first
    full = running.postbox.full = {shard_queue(first)}
    running.run.add(few)
    (scan,), _ = running.turn()
    rows = [row.model_copy(update={"before": Sizes(items=9, tokens=200_000)}) for row in over(*few)]
    running.rows.put(rows, told=scan["task_id"])
    running.run.turn()
    sent, _ = running.turn()
    assert [running.postbox.shard(call) for call in sent] == [shard_queue(1 - first)] * len(sent) != []
    full.clear()
    for call in sent:
        running.rows.put([], told=call["task_id"])
    running.run.turn()
    refused = [call for call in running.turn()[0] if running.postbox.shard(call) == shard_queue(first)]
    assert {len(names) for names in sessions(refused)} == {1}


def pass_by(running: Running) -> list[dict[str, Any]]:
    """Time goes by and nothing is heard of what is out; what is sent then."""
    running.now_s += LOOK_AFTER_S + 1
    assert running.run.turn() == []
    return running.turn()[0]


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
