"""Messages that kill, mutations that hang, a state store that is away."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Signature, chain, chord
from click.testing import CliRunner
from support.fleet import KEYS, Fleet
from support.polling import eventually
from support.resolver import suffering
from support.workers import WorkerProcess

from ditto_tasks.cli import celery_group


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(own_state=True) as running:
        yield running


def run_until_dead(fleet: Fleet, deaths: int) -> WorkerProcess:
    """Start a worker again each time that a message kills it; the one that is left."""
    for number in range(deaths):
        worker = fleet.worker(f"victim{number}").start()
        eventually(lambda worker=worker: not worker.alive, 30)
    return fleet.start("survivor")


def ditto(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """The output of a command that succeeds."""
    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(celery_group, list(arguments))
    assert shown.exit_code == 0, shown.output
    return shown.output


def test_an_errback_that_cannot_be_sent_keeps_no_dead_letter_from_its_place(fleet: Fleet) -> None:
    """The message is buried all the same, and the shard goes on."""
    errback = fleet.app.signature("CONTEXT.UPDATE", kwargs={"scope": {"sessionId": "s"}}, countdown=9)
    options = {"task_id": "deadly", "link_error": errback}
    fleet.app.send_task("CONTEXT.UPDATE", kwargs={"scope": {"sessionId": "s"}}, **options)
    shard = fleet.shard("s")
    fleet.broker.hset(KEYS.shard(shard), "deaths", 3)
    fleet.append("s", "after")
    worker = fleet.start()
    fleet.receipt("after")
    assert "Not everybody could be told of a dead letter: PublishError" in worker.logs()
    assert [row.dead for row in fleet.rows() if row.shard == shard] == [1]


def test_the_third_death_sends_a_message_to_the_dead_letters(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller gets DEAD_LETTERED, later calls of the scope go on, and it can be sent again."""
    deaths = fleet.folder / "deaths"
    fleet.suffer("poison", "poison-1", f"die:{deaths}")
    fleet.append("poison", "poison-2")
    survivor = run_until_dead(fleet, 3)
    assert fleet.code("poison-1") == "DEAD_LETTERED"
    assert fleet.receipt("poison-2")["items"] == 1
    assert (survivor.alive, deaths.read_text()) == (True, "xxx")
    listed = ditto(fleet, monkeypatch, "dead", "list", "--json")
    assert [json.loads(line)["task_id"] for line in listed.splitlines()] == ["poison-1"]
    assert ditto(fleet, monkeypatch, "dead", "retry", "poison-1") == "1 sent again\n"
    eventually(lambda: not survivor.alive, 30)
    assert deaths.read_text() == "xxxx"


def test_a_dead_letter_says_what_was_committed(fleet: Fleet) -> None:
    """Workers that die after the commit leave a change behind, and its caller hears which version it made."""
    deaths = fleet.folder / "deaths"
    first = fleet.start()
    fleet.suffer("late", "late-1", f"die-with:{deaths}")
    version = fleet.receipt("late-1")["version"]
    first.stop()
    deaths.touch()
    options = {"operationId": "late-1"}
    fleet.send("late", "late-2", "CONTEXT.LOAD", **suffering(f"die-with:{deaths}"), ditto=options)
    run_until_dead(fleet, 3)
    assert fleet.code("late-2") == "DEAD_LETTERED"
    assert fleet.result("late-2")["result"]["exc_message"][2] == {"deaths": 3, "version": version}


def test_a_chord_and_its_errback_hear_of_a_dead_letter(fleet: Fleet) -> None:
    """A dead letter in the header of a chord fails the chord's body, which nobody would run."""
    deaths = fleet.folder / "deaths"
    scope = {"sessionId": "header"}
    poison = {"sources": [{"uri": f"die:{deaths}"}], "resolveReferences": True}
    header = [fleet.app.signature("CONTEXT.LOAD", kwargs={"scope": scope, **poison}).set(task_id="header-1")]
    body = fleet.app.signature("CONTEXT.LOAD", kwargs={"scope": scope}).set(task_id="body-1")
    chord(header, body, app=fleet.app).apply_async()
    run_until_dead(fleet, 3)
    assert fleet.code("header-1") == "DEAD_LETTERED"
    assert fleet.result("body-1")["status"] == "FAILURE"


def test_errbacks_hear_of_dead_letters(fleet: Fleet) -> None:
    """A chain's errback and that of a chord's body run, through the shard of their own scope."""
    deaths, gone = fleet.folder / "deaths", fleet.folder / "gone"
    heard = [noting(fleet, name) for name in ("chain", "chord")]
    failing = [poisonous(fleet, "a", deaths), poisonous(fleet, "b", gone)]
    after = fleet.app.signature("CONTEXT.LOAD", kwargs={"scope": {"sessionId": "x"}}, immutable=True)
    chain(failing[0], after.clone(), app=fleet.app).on_error(heard[0]).apply_async()
    chord([failing[1]], after.clone().on_error(heard[1]), app=fleet.app).apply_async()
    for _ in range(6):
        worker = fleet.start(f"w{time.monotonic_ns()}")
        eventually(lambda worker=worker: not worker.alive or len(fleet.items("errors")) == 2, 30)
        if worker.alive:
            break
    assert sorted(fleet.items("errors")) == ["chain", "chord"]
    assert [fleet.code(f"poison-{name}") for name in "ab"] == ["DEAD_LETTERED", "DEAD_LETTERED"]


def poisonous(fleet: Fleet, name: str, deaths: Path) -> Signature:
    """A scoped mutation that kills its worker."""
    wire = {"scope": {"sessionId": f"poison-{name}"}, **suffering(f"die:{deaths}")}
    return fleet.app.signature("CONTEXT.LOAD", kwargs=wire).set(task_id=f"poison-{name}")


def noting(fleet: Fleet, name: str) -> Signature:
    """A scoped mutation that notes that it was called."""
    wire = {"scope": {"sessionId": "errors"}, "add": [{"id": name, "content": 1}]}
    return fleet.app.signature(
        "CONTEXT.UPDATE", kwargs={**wire, "ditto": {"onMissing": "create"}}, immutable=True
    )


def test_suspects_run_one_at_a_time(fleet: Fleet) -> None:
    """A message that died twice beside a killer does not die with it a third time."""
    deaths, gate = fleet.folder / "deaths", fleet.folder / "innocent"
    started = fleet.folder / "innocent.started"
    (other,) = fleet.sessions_beside("killer", 1)
    fleet.suffer(other, "innocent", f"until:{gate}")
    fleet.suffer("killer", "killer", "wait:0.5", f"die:{deaths}")
    run_until_dead(fleet, 1)
    eventually(lambda: deaths.read_text() == "xx", 30)
    started.unlink()
    fleet.start("next")
    since_s = eventually(lambda: (started.exists() or deaths.read_text() == "xxx") and time.monotonic(), 30)
    eventually(lambda: deaths.read_text() == "xxx" or time.monotonic() > since_s + 1.5)
    gate.touch()
    fleet.start("last")
    assert fleet.code("killer", 60) == "DEAD_LETTERED"
    assert fleet.result("innocent", 60)["status"] == "SUCCESS"


def test_while_the_state_store_is_away_messages_keep_their_places(fleet: Fleet) -> None:
    """Nothing fails and nothing overtakes while the store is away; then all succeed in order."""
    fleet.start()
    fleet.receipt(fleet.append("away", "away-0"))
    fleet.state_server.kill()
    ids = [fleet.append("away", f"away-{number}") for number in range(1, 20)]
    eventually(lambda: json.loads(fleet.broker.get(worker_report(fleet)) or b"{}").get("paused"), 20)
    assert [fleet.stored(task_id) for task_id in ids] == [None] * len(ids)
    fleet.state_server.start()
    receipts = [fleet.receipt(task_id) for task_id in ids]
    assert fleet.items("away") == ids  # the store was not durable, and a mutation may create what is missing
    assert [receipt["items"] for receipt in receipts] == list(range(1, 20))


def worker_report(fleet: Fleet) -> bytes:
    """The key under which the worker says how it is."""
    return next(iter(fleet.broker.scan_iter(match="ditto:default:worker:*")), b"none")


def test_a_message_past_its_deadline_fails_while_the_store_is_away(fleet: Fleet) -> None:
    """It ends with a typed error, its successors without a deadline wait on and succeed."""
    fleet.start()
    fleet.receipt(fleet.append("late", "late-0"))
    fleet.state_server.kill()
    seconds, _ = fleet.broker.time()
    fleet.append("late", "late-1", deadlineMs=(seconds + 2) * 1000)
    fleet.append("late", "late-2")
    assert fleet.code("late-1") in ("STATE_BACKEND_UNAVAILABLE", "STATE_OUTCOME_UNKNOWN")
    assert fleet.stored("late-2") is None
    fleet.state_server.start()
    assert fleet.receipt("late-2")["items"] == 1


def test_a_store_that_answers_and_takes_no_writes_is_away(fleet: Fleet) -> None:
    """Messages wait for a failed-over server that is still a replica, in order, and are tried rarely."""
    worker = fleet.start()
    fleet.receipt(fleet.append("replica", "replica-0"))
    fleet.state.replicaof("127.0.0.1", "1")
    ids = [fleet.append("replica", f"replica-{number}") for number in range(1, 10)]
    since_s = eventually(lambda: "shards pause" in worker.logs() and time.monotonic(), 20)
    eventually(lambda: time.monotonic() > since_s + 4)
    assert worker.logs().count("Task CONTEXT.UPDATE[replica-1] received") < 10
    assert [fleet.stored(task_id) for task_id in ids] == [None] * len(ids)
    fleet.state.replicaof("NO", "ONE")
    assert [fleet.receipt(task_id)["items"] for task_id in ids] == list(range(2, 11))


@pytest.mark.parametrize("fault", ["killed", "replica"])
def test_patience_with_a_store_that_is_away_ends(fault: str) -> None:
    """A message without a deadline fails typed after runtime.shards.outagePatienceMs; later ones succeed."""
    with Fleet(own_state=True, outage_patience_ms=3_000) as fleet:
        fleet.start()
        fleet.receipt(fleet.append("patient", "patient-0"))
        fleet.state_server.kill() if fault == "killed" else fleet.state.replicaof("127.0.0.1", "1")
        fleet.append("patient", "patient-1")
        assert fleet.code("patient-1") in ("STATE_BACKEND_UNAVAILABLE", "STATE_OUTCOME_UNKNOWN")
        fleet.state_server.start() if fault == "killed" else fleet.state.replicaof("NO", "ONE")
        fleet.append("patient", "patient-2")
        assert fleet.receipt("patient-2")["operationId"] == "patient-2"
        assert "patient-1" not in fleet.items("patient")


def test_a_hanging_mutation_frees_its_shard() -> None:
    """A mutation over shards.mutationTimeoutMs fails typed, its shard goes on, and it has no effect later."""
    with Fleet(mutation_timeout_ms=1_500) as fleet:
        worker = fleet.start()
        gate = fleet.folder / "hang"
        fleet.suffer("hang", "hang-1", f"until:{gate}")
        fleet.append("hang", "hang-2")
        assert fleet.code("hang-1") == "TIMEOUT"
        assert fleet.receipt("hang-2")["items"] == 1
        gate.touch()
        eventually(lambda: "CONTEXT.LOAD[hang-1]" in worker.logs().rsplit("is freed of a mutation", 1)[-1])
        threading.Event().wait(0.3)  # for a late effect, if there were one
        assert fleet.items("hang") == ["hang-2"]
        assert fleet.code("hang-1") == "TIMEOUT"
