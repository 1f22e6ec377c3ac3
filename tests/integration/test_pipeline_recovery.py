"""Pipelines whose steps are lost, late or cancelled: nobody waits for ever."""

import os
from uuid import uuid4

import pytest
import redis
from support.deployments import deployment
from support.polling import eventually

from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import Cancelled, PipelineError
from ditto_tasks.pipelines.canvas import answer_canvas
from ditto_tasks.pipelines.sweep import sweep

WAIT_S = 30.0
GOAL = {"id": "goal", "content": "every mutation runs in order"}
SHARDS = range(64)
SHORT_LEASES = "runtime:\n  shards:\n    leaseMs: 1000\n"


@pytest.fixture(scope="module")
def running():
    """A deployment in which nobody serves INFER, so that pipelines stop before the sample."""
    with deployment(SHORT_LEASES) as deployed, deployed.worker("ditto.ctx", "ditto.context", "ditto.memory"):
        yield deployed


@pytest.fixture(scope="module")
def broker(running):
    with redis.Redis.from_url(running.server.redis_url(0)) as client:
        yield client


@pytest.fixture
def client(running, broker):
    broker.delete("ditto.infer")
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def waiting(client, broker):
    """A pipeline whose sample waits in its queue."""
    pending = client.answer({"sessionId": str(uuid4())}, "what runs in order?", init=[GOAL])
    eventually(lambda: broker.llen("ditto.infer"), WAIT_S)
    return pending


def sweep_all(client, *, quiet_ms):
    def resend(record):
        answer_canvas(client.app, record.request, record.pipeline, record.results).apply_async()

    for shard in SHARDS:
        sweep(shard, records=client.app.records, runs=client.app.runs, resend=resend, quiet_ms=quiet_ms)


def test_a_lost_step_is_sent_again_under_its_id_and_the_pipeline_finishes(running, client, broker, waiting):
    """A message that vanished is replaced; the steps before it are not run again."""
    broker.delete("ditto.infer")
    before = client.app.records.load(waiting.id)
    sweep_all(client, quiet_ms=1)
    eventually(lambda: broker.llen("ditto.infer"), WAIT_S)
    with running.worker("ditto.infer", name="infer"):
        answer = waiting.get(WAIT_S)
    assert GOAL["content"] in answer.text
    assert answer.updated_version == before.results["update"]["version"]
    started = [event.data["step"] for event in waiting.events() if event.data.get("status") == "started"]
    assert started == ["load", "search-0", "update", "select", "sample", "turn"]


def test_a_step_that_is_only_late_is_left_alone(client, broker, waiting):
    """Within the quiet time nothing is sent again, and each sending doubles it."""
    sweep_all(client, quiet_ms=60_000)
    assert broker.llen("ditto.infer") == 1
    sweep_all(client, quiet_ms=1)
    sweep_all(client, quiet_ms=60_000)
    assert broker.llen("ditto.infer") == 2
    assert client.app.records.load(waiting.id).resent == 1


def test_a_cancelled_pipeline_ends_as_cancelled_and_its_steps_do_nothing(running, client, waiting):
    """The caller gets Cancelled at once; the step that was still queued asks no model."""
    waiting.cancel()
    with pytest.raises(Cancelled):
        waiting.get(WAIT_S)
    with running.worker("ditto.infer", name="infer"), pytest.raises(PipelineError) as caught:
        client.result(f"{waiting.id}.sample").get(WAIT_S)
    assert caught.value.code == "PIPELINE_ENDED"


def test_the_owner_of_the_shard_fails_a_pipeline_past_its_deadline(client):
    """No one calls the sweep here: the worker that holds the shard ends the pipeline by itself."""
    pending = client.answer({"sessionId": str(uuid4())}, "what?", init=[GOAL], timeout_ms=800)
    with pytest.raises(PipelineError) as caught:
        pending.get(WAIT_S)
    assert caught.value.code == "PIPELINE_DEADLINE_EXCEEDED"
    eventually(lambda: not any(pending.id in client.app.records.tracked(shard) for shard in SHARDS), WAIT_S)


def test_an_end_that_was_not_announced_is_announced_by_the_sweep(client, waiting):
    """Whoever settled the pipeline died before telling: the recorded error reaches the caller."""
    error = {"kind": "InferError", "code": "MODEL_ERROR", "message": "no", "details": {"node": "n"}}
    client.app.records.settle(waiting.id, "failed", error)
    sweep_all(client, quiet_ms=60_000)
    with pytest.raises(Exception, match="MODEL_ERROR") as caught:
        waiting.get(WAIT_S)
    assert type(caught.value).__name__ == "InferError"


def test_the_first_end_stands(client, waiting):
    """An error that comes after the end changes neither the record nor what the caller gets."""
    client.app.runs.fail(waiting.id, PipelineError("FIRST", "first"))
    client.app.runs.fail(waiting.id, PipelineError("SECOND", "second"))
    with pytest.raises(PipelineError, match="FIRST"):
        waiting.get(WAIT_S)


def test_a_child_process_waits_on_connections_of_its_own(running, client, waiting):
    """After a fork the same client object publishes and waits in the child, and still does in the parent."""
    client.app.connection_for_write().ensure_connection()
    scope = {"sessionId": str(uuid4())}
    child = os.fork()
    if child == 0:
        code = 1
        try:
            client.context.load(scope=scope, sources=[GOAL]).get(WAIT_S)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert client.context.load(scope=scope).get(WAIT_S).items[0].id == "goal"
