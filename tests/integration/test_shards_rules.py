"""Who takes shards, how many there are, what commands show of them, and what ordinary queues keep."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.fleet import QUIET, Fleet
from support.polling import eventually
from support.resolver import suffering
from support.workers import client_app

from ditto_tasks.cli import celery_group
from ditto_tasks.errors import PublishError
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.keys import inflight_key


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    with Fleet() as running:
        for name, value in running.env.items():
            monkeypatch.setenv(name, value)
        yield running


def ditto(*arguments: str) -> Result:
    """One command of the command line."""
    return CliRunner().invoke(celery_group, list(arguments))


def test_with_named_queues_a_worker_takes_no_shards(fleet: Fleet) -> None:
    """`-Q ditto.context` serves that queue and leaves scoped mutations to others."""
    fleet.start(queues=["ditto.context"])
    fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id="plain")
    fleet.receipt("plain")
    fleet.append("s", "scoped")
    assert (fleet.owners(), fleet.stored("scoped")) == ({}, None)
    assert ditto("health").exit_code == 0


def test_the_pseudo_queue_means_shards(fleet: Fleet) -> None:
    """`-Q ditto.ctx` takes shards and no ordinary queue."""
    fleet.start(queues=["ditto.ctx"])
    fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id="plain")
    fleet.receipt(fleet.append("s", "scoped"))
    assert fleet.stored("plain") is None
    assert fleet.broker.llen("ditto.ctx") == 0


def test_the_queue_of_one_shard_stops_a_worker(fleet: Fleet) -> None:
    """`-Q ditto.ctx.3` ends at start and says what to write instead."""
    worker = fleet.worker(queues=["ditto.ctx.3"])
    with pytest.raises(AssertionError, match=r"use -Q ditto\.ctx to take shards"):
        worker.start()


def test_another_number_of_shards_stops_a_worker(fleet: Fleet) -> None:
    """A worker whose settings disagree with the deployment's number of shards ends and names both."""
    fleet.broker.set("ditto:default:shards:count", 8)
    worker = fleet.worker()
    worker.start()
    eventually(lambda: not worker.alive, 20)
    assert "SHARD_COUNT_MISMATCH" in worker.logs()
    assert fleet.owners() == {}


def test_another_number_of_shards_stops_a_publish(fleet: Fleet) -> None:
    """A sender whose settings disagree with the deployment's number of shards sends nothing."""
    fleet.broker.set("ditto:default:shards:count", 8)
    with pytest.raises(PublishError, match="SHARD_COUNT_MISMATCH") as caught:
        fleet.append("s", "s-1")
    assert caught.value.details == {"configured": fleet.shards, "stored": 8}
    assert list(fleet.broker.scan_iter(match="ditto.ctx.*")) == []


def test_two_deployments_do_not_share_a_broker(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Senders, workers and commands of the second end with a typed error; the first goes on."""
    first = fleet.start()
    fleet.receipt(fleet.append("s", "s-1"))
    fleet.env["DITTO_DEPLOYMENT"] = "other"
    other = client_app(fleet.server, **fleet.env)
    with pytest.raises(PublishError, match="DEPLOYMENT_MISMATCH"):
        other.send_task("CONTEXT.LOAD", kwargs={"scope": {"sessionId": "s"}, "sources": []})
    other.close()
    second = fleet.worker("second").start()
    eventually(lambda: not second.alive, 30)
    assert "DEPLOYMENT_MISMATCH" in second.logs()
    monkeypatch.setenv("DITTO_DEPLOYMENT", "other")
    refused = ditto("shards", "purge", "0", "--yes")
    assert (refused.exit_code, "DEPLOYMENT_MISMATCH" in refused.output) == (1, True)
    assert fleet.receipt(fleet.append("s", "s-2"))["items"] == 2
    assert first.alive


def test_a_solo_pool_takes_no_shards(fleet: Fleet) -> None:
    """It runs tasks in the loop that has to tick meanwhile; ordinary queues are served."""
    worker = fleet.worker(args=[*QUIET, "-P", "solo"]).start()
    fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id="plain")
    fleet.receipt("plain")
    fleet.append("s", "scoped")
    assert (fleet.owners(), fleet.stored("scoped")) == ({}, None)
    assert "takes no shards: -P solo" in worker.logs()
    assert ditto("health").exit_code == 0


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_one_place_in_the_pool_serves_all_shards(fleet: Fleet, pool: str) -> None:
    """With `-c 1` messages of many shards wait for each other, and each counts as started once it runs."""
    gate = fleet.folder / "one"
    wire = suffering(f"until:{gate}")  # an ordinary task, whose end tells shards nothing
    fleet.app.send_task("CONTEXT.LOAD", kwargs=wire, task_id="slow-1")
    fleet.worker(args=[*QUIET, "-P", pool, "-c", "1"]).start()
    eventually((fleet.folder / "one.started").exists, 30)
    (other,) = fleet.sessions_beside("slow", 1)
    fleet.suffer(other, "second", f"until:{fleet.folder / 'two'}")
    eventually(lambda: fleet.rows()[fleet.shard(other)].depth == 0, 30)
    assert fleet.rows()[fleet.shard(other)].running_ms is None
    gate.touch()
    fleet.receipt("slow-1")
    eventually(lambda: fleet.rows()[fleet.shard(other)].running_ms is not None, 30)
    ids = [fleet.append(other, f"after-{number}") for number in range(10)]
    (fleet.folder / "two").touch()
    assert [fleet.receipt(task_id)["items"] for task_id in ids] == list(range(2, 12))


def test_shards_shows_the_busy_ones(fleet: Fleet) -> None:
    """Owner, depth, scope at the head, how long it has run and the age of the oldest are listed by shard."""
    fleet.start()
    gate = fleet.folder / "gate"
    fleet.suffer("s", "s-1", f"until:{gate}")
    fleet.append("s", "s-2")
    eventually(lambda: (fleet.folder / "gate.started").exists())
    (shown,) = [json.loads(line) for line in ditto("shards", "--json", "--busy").output.splitlines()]
    gate.touch()
    assert (shown["shard"], shown["depth"], shown["deaths"]) == (fleet.shard("s"), 1, 0)
    assert shown["owner"].startswith("w1@")
    assert shown["head_scope"].startswith("scope:")
    assert shown["epoch"] > 1_000_000_000_000
    assert 0 <= shown["running_ms"] < 20_000
    assert 0 <= shown["oldest_ms"] < 20_000
    assert f" {fleet.shard('s')} " in ditto("shards").output


def test_resize_is_refused_while_a_message_waits(fleet: Fleet) -> None:
    """Only empty shards can be renumbered; a running worker with another number then stops by itself."""
    fleet.append("s", "s-1")
    refused = ditto("shards", "resize", "32")
    assert (refused.exit_code, "SHARDS_NOT_EMPTY" in refused.output) == (1, True)
    worker = fleet.start()
    assert ditto("shards", "drain").output == "all shards are empty\n"
    assert ditto("shards", "resize", "32").exit_code == 0
    eventually(lambda: not worker.alive, 20)


def test_drain_says_what_is_left(fleet: Fleet) -> None:
    """A drain that runs out of time fails and counts what waits."""
    fleet.append("s", "s-1")
    drained = ditto("shards", "drain", "--timeout", "0.1")
    assert (drained.exit_code, "1 messages wait" in drained.output) == (1, True)


def test_purge_tells_the_callers(fleet: Fleet) -> None:
    """The messages that waited in a shard are dropped, and their callers get PURGED instead of silence."""
    fleet.append("s", "s-1")
    fleet.append("s", "s-2")
    shard = fleet.shard("s")
    assert ditto("shards", "purge", str(shard), "--yes").output == "2 messages dropped\n"
    assert [fleet.code(task_id) for task_id in ("s-1", "s-2")] == ["PURGED", "PURGED"]
    assert fleet.broker.llen(shard_queue(shard)) == 0
    assert ditto("shards", "purge", "99", "--yes").exit_code == 1


def test_a_purge_that_was_interrupted_is_ended_by_the_next(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a caller can't be told, its message is a dead letter; the next purge tells it and drops that."""
    fleet.append("s", "s-1")
    fleet.append("s", "s-2")
    number, backend = str(fleet.shard("s")), "DITTO_RESULT_BACKEND_URL"
    monkeypatch.setenv(backend, f"redis+socket://{fleet.folder}/none")
    assert ditto("shards", "purge", number, "--yes").exit_code != 0
    assert "PURGED" in ditto("dead", "list").output
    assert [fleet.stored(task_id) for task_id in ("s-1", "s-2")] == [None, None]
    monkeypatch.setenv(backend, fleet.env[backend])
    assert ditto("shards", "purge", number, "--yes").output == "2 messages dropped\n"
    assert [fleet.code(task_id) for task_id in ("s-1", "s-2")] == ["PURGED", "PURGED"]
    assert "PURGED" not in ditto("dead", "list").output


def test_dead_letters_can_be_dropped(fleet: Fleet) -> None:
    """Garbage in a shard's queue becomes a dead letter without its content, which a command drops."""
    fleet.broker.lpush(shard_queue(0), b"garbage")
    fleet.start()
    eventually(lambda: fleet.broker.llen("ditto.ctx.0:dead") == 1)
    (shown,) = [json.loads(line) for line in ditto("dead", "list", "--json").output.splitlines()]
    assert (shown["code"], shown["has_message"]) == ("NOT_JSON", False)
    assert ditto("dead", "retry", "--all").output == "0 sent again\n"
    assert ditto("dead", "drop", "--all").output == "1 dropped\n"
    assert ditto("dead", "drop").exit_code == 2
    assert fleet.broker.llen("ditto.ctx.0:dead") == 0


def test_health_fails_without_a_worker(fleet: Fleet) -> None:
    """The probe's exit code follows the worker."""
    assert ditto("health").exit_code == 1
    worker = fleet.start()
    eventually(lambda: ditto("health").exit_code == 0, 20)
    assert ditto("health", "--worker", "other@nowhere").exit_code == 1
    worker.stop()
    assert ditto("health").exit_code == 1


def test_health_fails_while_a_worker_stands_still(fleet: Fleet) -> None:
    """A worker that is stopped has no report within two leases, and is healthy again when it goes on."""
    worker = fleet.start()
    eventually(lambda: ditto("health").exit_code == 0, 20)
    os.kill(worker.pid, signal.SIGSTOP)
    stopped = eventually(lambda: (shown := ditto("health")).exit_code == 1 and shown, 20)
    assert "no worker has reported" in stopped.output
    os.kill(worker.pid, signal.SIGCONT)
    eventually(lambda: ditto("health").exit_code == 0, 20)


def test_health_fails_while_the_state_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe asks the store itself; without the broker it fails with a typed line too."""
    with Fleet(own_state=True) as fleet:
        for name, value in fleet.env.items():
            monkeypatch.setenv(name, value)
        fleet.start()
        eventually(lambda: ditto("health").exit_code == 0, 20)
        fleet.state_server.kill()
        without_state = ditto("health")
        fleet.state_server.start()
        eventually(lambda: ditto("health").exit_code == 0, 20)
        fleet.server.kill()
        without_broker = ditto("health")
        fleet.server.start()
    assert (without_state.exit_code, "the state store is unreachable" in without_state.output) == (1, True)
    assert without_broker.exit_code == 1
    assert "STATE_BACKEND_UNAVAILABLE" in without_broker.output


def test_ordinary_queues_are_redelivered_after_the_visibility_timeout(fleet: Fleet) -> None:
    """A worker that serves shards sweeps what a dead worker left unacknowledged in an ordinary queue."""
    fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id="swept")
    raw = fleet.broker.rpop("ditto.context")
    left = json.dumps([json.loads(raw), "", "ditto.context"])
    fleet.broker.hset("unacked", "a-dead-workers", left)
    fleet.broker.zadd("unacked_index", {"a-dead-workers": time.time() - 100_000})
    fleet.start()
    fleet.receipt(fleet.append("s", "scoped"))
    fleet.receipt("swept", 40)


def test_a_worker_serves_more_shards_than_a_client_has_connections_by_default() -> None:
    """Each of 160 shards is peeked at, so that a call on any of them is heard of at once."""
    with Fleet(shards=160) as fleet:
        fleet.start()
        fleet.wait_balanced("w1")
        beside = fleet.sessions_beside("wide", 150)
        for number, session in enumerate(beside):
            fleet.append(session, f"wide-{number}")
        for number in range(len(beside)):
            fleet.receipt(f"wide-{number}", 8)


def test_a_call_that_is_cancelled_while_it_waits_for_a_thread_does_not_run() -> None:
    """In a full pool the question for its cancel comes with the end of the task before; others run."""
    with Fleet() as fleet:
        fleet.worker(args=[*QUIET, "-c", "1"]).start()
        fleet.wait_balanced("w1")
        gate = fleet.folder / "full"
        fleet.suffer("runs", "runs-1", f"until:{gate}")
        eventually(Path(f"{gate}.started").exists, 20)
        cancelled, kept = fleet.sessions_beside("runs", 2)
        for session, task_id in ((cancelled, "cancelled-1"), (kept, "kept-1")):
            fleet.append(session, task_id)
            in_flight = inflight_key(fleet.shard(session))
            eventually(lambda key=in_flight: fleet.broker.exists(key), 20)
        fleet.app.coordination.cancel("cancelled-1")
        gate.touch()
        assert fleet.code("cancelled-1") == "CANCELLED"
        assert fleet.receipt("kept-1")["items"] == 1
        assert fleet.items(cancelled) == []


def test_a_call_that_waited_behind_an_ordinary_task_has_started_when_it_runs() -> None:
    """The pool says when it picks a message up: from then on its owner's death counts against it."""
    with Fleet() as fleet:
        fleet.worker(args=[*QUIET, "-c", "1"]).start()
        fleet.wait_balanced("w1")
        first, second, shard = fleet.folder / "first", fleet.folder / "second", fleet.shard("scoped")
        fleet.app.send_task("CONTEXT.LOAD", kwargs=suffering(f"until:{first}"), task_id="ordinary")
        eventually(Path(f"{first}.started").exists, 20)
        fleet.suffer("scoped", "scoped-1", f"until:{second}")
        eventually(lambda: fleet.broker.exists(inflight_key(shard)), 20)
        assert fleet.rows()[shard].running_ms is None
        first.touch()
        eventually(Path(f"{second}.started").exists, 20)
        assert fleet.rows()[shard].running_ms is not None
        second.touch()
        fleet.receipt("scoped-1")
