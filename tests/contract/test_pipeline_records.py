"""Pipeline records on a real server: every operation atomic, idempotent, and bounded in time."""

from contextlib import contextmanager
from itertools import count

import pytest
import redis
from support.polling import eventually

from ditto_tasks.errors import ContextError
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.canvas import answer_request
from ditto_tasks.pipelines.records import PipelineRecords

REQUEST = answer_request({"sessionId": "s"}, "why?", store_turn=False)
SHARD = 7
RECORD = "ditto:test:pipeline:p"


@pytest.fixture
def broker(server):
    with redis.Redis.from_url(server.redis_url(0)) as client:
        yield client


@pytest.fixture
def records(broker):
    @contextmanager
    def clients():
        yield broker

    return PipelineRecords("test", clients, ttl_ms=60_000)


@pytest.fixture
def opened(records):
    return records.open("p", REQUEST, shard=SHARD, deadline_ms=5_000)


def test_a_new_pipeline_runs_until_its_deadline(records, broker, opened):
    """The record reads back with the deadline by the server's clock, and goes some time after it."""
    record = records.load("p")
    assert (record.state, record.results, record.resent, record.error) == ("running", {}, 0, None)
    assert record.request == REQUEST.model_copy(update={"deadline_ms": opened})
    assert 0 < record.deadline_ms - record.now_ms <= 5_000
    assert 60_000 < broker.pttl(RECORD) <= 65_000
    assert records.tracked(SHARD) == ["p"]


def test_opening_again_changes_nothing(records, opened):
    """A second opening answers the first one's deadline."""
    assert records.open("p", REQUEST, shard=SHARD, deadline_ms=99_000) == opened


def test_steps_without_a_record_leave_no_key(records, broker):
    """Nothing but opening creates a record."""
    assert records.begin("p", "update") is None
    assert records.finish("p", "update", {"a": 1}) == {"a": 1}
    assert records.settle("p", "done") is None
    records.beat("p")
    records.resend("p")
    records.announced("p")
    assert records.load("p") is None
    assert broker.keys("*") == []


def test_the_first_result_of_a_step_stands(records, opened):
    """A second one is answered with the first, and a later begin sees it."""
    begun = records.begin("p", "update")
    assert (begun.state, begun.last_step, begun.finished) == ("running", "sample", False)
    assert records.finish("p", "update", {"n": 1}) == {"n": 1}
    assert records.finish("p", "update", {"n": 2}) == {"n": 1}
    assert records.begin("p", "update").result == {"n": 1}
    assert records.load("p").results == {"update": {"n": 1}}


@pytest.mark.parametrize("result", [None, [], "\ud800", {"big": 2**70}, {"__type__": "datetime"}])
def test_results_come_back_as_they_were(records, opened, result):
    """Any JSON value is kept exactly, null too, which is not the same as no result."""
    records.finish("p", "update", result)
    begun = records.begin("p", "update")
    assert begun.finished
    assert begun.result == result


def test_a_pipeline_ends_once(records, opened):
    """The first end stands, with its error."""
    error = {"kind": "PipelineError", "code": "X", "message": "m", "details": {}}
    assert records.settle("p", "failed", error) == "failed"
    assert records.settle("p", "done") == "failed"
    assert (records.load("p").state, records.load("p").error) == ("failed", error)


def test_signs_of_life_renew_the_time_of_the_last_one(records, opened):
    """Beginning, beating, finishing and resending each count; finishing forgets earlier resendings."""
    steps = map(str, count())  # a step is finished once, and the clock of the server stands still for a ms
    for sign in (
        lambda: records.begin("p", "update"),
        lambda: records.beat("p"),
        lambda: records.resend("p"),
        lambda: records.finish("p", next(steps), 1),
    ):
        before = records.load("p").active_ms
        eventually(lambda sign=sign, before=before: (sign(), records.load("p").active_ms > before)[1])
    assert records.load("p").resent == 0


def test_resendings_are_counted(records, opened):
    """Each one doubles the patience before the next."""
    records.resend("p")
    records.resend("p")
    assert records.load("p").resent == 2


@pytest.mark.parametrize("away", [lambda r: r.announced("p"), lambda r: r.forget("p", SHARD)])
def test_an_announced_pipeline_is_not_tracked(records, opened, away):
    """The record stays for late readers."""
    away(records)
    assert records.tracked(SHARD) == []
    assert records.load("p") is not None


def test_events_are_capped_and_go_after_a_while(records, broker, opened):
    """Begin, finish and end are told in order, each once, in a stream with a TTL."""
    for _ in range(2):
        records.begin("p", "update")
        records.finish("p", "update", 1)
        records.settle("p", "done")
    told = [fields[b"data"] for _, fields in broker.xrange("ditto:test:events:p")]
    assert [b"started" in told[0], b"finished" in told[1], b"done" in told[2], len(told)] == [
        True,
        True,
        True,
        3,
    ]
    assert 0 < broker.pttl("ditto:test:events:p") <= 600_000


def test_an_erased_pipeline_is_not_opened(records, broker):
    """A pipeline that was erased after its admission gets no record, and its sender hears ERASED."""
    broker.set(Keys("test").erased_root("p"), "1", px=60_000)
    with pytest.raises(ContextError, match="ERASED"):
        records.open("p", REQUEST, shard=SHARD, deadline_ms=5_000)
    assert records.load("p") is None
    assert records.tracked(SHARD) == []
