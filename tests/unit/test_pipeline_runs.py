"""What workers do around steps, against a record store in memory."""

import threading
from dataclasses import replace

import pytest
from celery.exceptions import ChordError
from support.polling import eventually

from ditto_tasks.errors import InferError, PipelineError
from ditto_tasks.pipelines.base import Begun, PipelineRecord
from ditto_tasks.pipelines.canvas import answer_request
from ditto_tasks.pipelines.heartbeats import Heartbeats
from ditto_tasks.pipelines.runs import MAX_HEADER_BYTES, StepRuns, bounded
from ditto_tasks.pipelines.steps import step_of
from ditto_tasks.pipelines.sweep import Verdict, sweep, verdict

SAMPLE = {
    "executionId": "x",
    "node": "INFER.REASONING.SAMPLE",
    "status": "success",
    "output": {"message": {"role": "assistant", "content": "yes"}, "finishReason": "stop"},
}
FOUND = {"executionId": "x", "node": "MEMORY.SEARCH", "status": "success", "output": []}
SELECTED = {"purpose": "infer", "context": {"items": []}, "selectedItemIds": []}
BEFORE = {"search-0": FOUND, "update": {"version": "1"}, "select": {"selection": SELECTED, "version": "1"}}


class Records:
    """One pipeline's record, without a server."""

    def __init__(self, **fields):
        request = answer_request({"sessionId": "s"}, "why?", store_turn=False)
        blank = PipelineRecord("p", request, "running", 1_000, 0, 0, 0, BEFORE)
        self.record = replace(blank, **fields)
        self.told = False

    def begin(self, pipeline, step):
        results = self.record.results
        return Begun(self.record.state, "sample", step in results, results.get(step))

    def beat(self, pipeline):
        self.record = replace(self.record, active_ms=self.record.active_ms + 1)

    def finish(self, pipeline, step, result):
        results = {step: result, **self.record.results}
        self.record = replace(self.record, results=results)
        return results[step]

    def settle(self, pipeline, state, error=None):
        if self.record.state == "running":
            self.record = replace(self.record, state=state, error=error)
        return self.record.state

    def announced(self, pipeline):
        self.told = True

    def load(self, pipeline):
        return self.record

    def tracked(self, shard):
        return [] if self.told else ["p"]

    def resend(self, pipeline):
        self.record = replace(self.record, resent=self.record.resent + 1)

    def forget(self, pipeline, shard):
        self.told = True


class Answers:
    """A result backend, without a server."""

    def __init__(self, **metas):
        self.stored = []
        self.metas = metas

    def store_result(self, task_id, result, state):
        self.stored.append((task_id, result, state))

    def get_task_meta(self, task_id):
        return self.metas.get(task_id.rpartition(".")[2].replace("-", "_"), {"status": "PENDING"})


def made(records=None, **metas):
    records, answers = records or Records(), Answers(**metas)
    return StepRuns(records, lambda: answers, send_none), records, answers


def send_none(record, step):
    """No flow runs here."""
    pytest.fail(f"{record.pipeline}.{step.name} was sent")


def test_a_step_is_known_by_its_id():
    """Only a task whose id is its root's and a name is a step; tenants' colons do not matter."""
    assert step_of("t:1.select", "t:1") == "select"
    assert step_of("t:1", "t:1") is None
    assert step_of("other", "t:1") is None
    assert step_of(None, None) is None


def test_a_finished_step_is_not_run_again():
    """The recorded result comes back, and the work is not done."""
    runs, _, _ = made()
    assert runs.run_step("p", "update", lambda: pytest.fail("ran again")) == {"version": "1"}


def test_the_first_of_two_results_stands():
    """A delivery that finishes second returns what the first one recorded."""
    runs, records, _ = made(Records(results={}))

    def slower():
        records.finish("p", "search-0", FOUND)
        return {**FOUND, "output": ["other"]}

    assert runs.run_step("p", "search-0", slower) == FOUND


def test_the_last_step_stores_the_answer_under_the_pipelines_id():
    """The caller who waits for the pipeline gets its answer, and nobody needs to look after it."""
    runs, records, answers = made()
    runs.run_step("p", "sample", lambda: SAMPLE)
    [(task_id, result, state)] = answers.stored
    assert (task_id, state, result["message"]["content"]) == ("p", "SUCCESS", "yes")
    assert records.told


def test_a_last_step_that_failed_as_a_node_fails_the_pipeline():
    """A failed NodeResult at the end is stored as its typed error."""
    runs, records, answers = made()
    runs.run_step(
        "p", "sample", lambda: {**SAMPLE, "status": "failed", "error": {"code": "X", "message": "m"}}
    )
    [(_, result, state)] = answers.stored
    assert (type(result), result.code, state) == (InferError, "X", "FAILURE")
    assert records.record.state == "failed"


def test_a_step_of_an_ended_pipeline_does_nothing():
    """After a cancel or a deadline the steps still in queues are refused."""
    runs, _, _ = made(Records(state="failed"))
    with pytest.raises(PipelineError, match="PIPELINE_ENDED"):
        runs.run_step("p", "sample", lambda: pytest.fail("ran"))


def test_a_chords_error_gives_way_to_the_searchs_own():
    """The errback stores the typed error of the header task that failed."""
    own = InferError("OWN", "typed")
    runs, _, answers = made(
        search_0={"status": "SUCCESS", "result": FOUND}, search_1={"status": "FAILURE", "result": own}
    )
    runs.fail("p", ChordError("Dependency p.search-1 raised"))
    assert answers.stored[0][1].code == "OWN"


def test_an_error_of_another_kind_keeps_its_text_to_itself():
    """Only the class of a raw error is told."""
    runs, _, answers = made()
    runs.fail("p", RuntimeError("postgres://user:secret@host"))
    assert answers.stored[0][1].code == "PIPELINE_FAILED"
    assert "secret" not in str(answers.stored[0][1])


@pytest.mark.parametrize(("size", "status"), [(100, "success"), (MAX_HEADER_BYTES, "failed")])
def test_a_searchs_result_is_bounded(size, status):
    """At 256 KiB a search's result becomes a failed NodeResult; other steps' results pass."""
    result = {**FOUND, "output": ["x" * size]}
    assert bounded("search-0", result)["status"] == status
    assert bounded("select", result) is result


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"now_ms": 10, "active_ms": 0}, Verdict.WAIT),
        ({"now_ms": 100, "active_ms": 0}, Verdict.RESEND),
        ({"now_ms": 100, "active_ms": 0, "resent": 1}, Verdict.WAIT),
        ({"now_ms": 200, "active_ms": 0, "resent": 1}, Verdict.RESEND),
        ({"now_ms": 1_000, "active_ms": 999}, Verdict.EXPIRE),
        ({"now_ms": 2_000, "state": "done"}, Verdict.ANNOUNCE),
    ],
)
def test_what_a_pipeline_needs_follows_from_its_record(fields, expected):
    """Silence means resending, with doubled patience; past the deadline it ends; an end is told."""
    assert verdict(Records(**fields).record, quiet_ms=100) is expected


def test_the_sweep_resends_a_silent_pipeline_with_what_it_has():
    """The record is handed to whoever sends, after the sending was noted."""
    runs, records, _ = made(Records(now_ms=500))
    sent = []
    sweep(3, records=records, runs=runs, resend=sent.append, quiet_ms=100)
    assert [record.results.keys() for record in sent] == [BEFORE.keys()]
    assert records.record.resent == 1


def test_the_sweep_forgets_a_pipeline_without_a_record():
    """A record that expired leaves nothing to look after."""
    runs, records, _ = made()
    records.record = None
    sweep(3, records=records, runs=runs, resend=lambda _: pytest.fail("sent"))
    assert records.told


def test_heartbeats_are_sent_while_work_goes_on_and_end_with_it():
    """A pipeline beats as long as any of its steps runs; then the thread ends."""
    beats = []
    hearts = Heartbeats(beats.append, interval_s=0.01)
    with hearts.during("p"), hearts.during("p"), hearts.during("q"):
        eventually(lambda: {"p", "q"} <= set(beats))
    alive = lambda: [each for each in threading.enumerate() if each.name == "pipeline-heartbeats"]  # noqa: E731 -- a predicate
    eventually(lambda: not alive())


def test_a_failed_beat_does_not_end_the_others():
    """While the broker is away beats fail, and go on afterwards."""
    heard = []

    def beat(pipeline):
        heard.append(pipeline)
        raise ConnectionError

    hearts = Heartbeats(beat, interval_s=0.01)
    with hearts.during("p"):
        eventually(lambda: len(heard) >= 3)
