"""Shards that change hands while calls run: stops, newcomers, broken connections, deaths."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from redis import Redis
from support.fleet import Fleet
from support.polling import eventually
from support.workers import RESULT_DB, WorkerProcess

from ditto_tasks.embedded import EmbeddedServer

LEASE_S = 1.0
WATCHED_LEASE_S = 6.0  # long against what a busy machine adds to it
LONG_LEASE_MS = 600_000  # lapses or is renewed within no test: what happens was told by somebody


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(lease_ms=int(LEASE_S * 1000)) as running:
        yield running


@pytest.fixture
def worker(fleet: Fleet) -> WorkerProcess:
    started = fleet.start()
    fleet.wait_balanced("w1")
    return started


def test_a_warm_stop_hands_its_shards_over_at_once() -> None:
    """The other worker has those that are idle while one is busy, and that one when its task has ended."""
    with Fleet(lease_ms=LONG_LEASE_MS) as fleet:
        worker = fleet.start()
        fleet.start("heir")
        fleet.wait_balanced("w1", "heir")
        gate, session = fleet.folder / "stop", fleet.session_of("w1")
        fleet.suffer(session, "busy", f"until:{gate}")
        eventually((fleet.folder / "stop.started").exists)
        with ThreadPoolExecutor() as threads:
            stopping = threads.submit(worker.stop)
            eventually(lambda: fleet.shards_of("heir") == fleet.shards - 1, 20)
            gate.touch()
            stopping.result()
        fleet.wait_balanced("heir")


def test_a_warm_stop_waits_for_the_mutation_in_work(fleet: Fleet, worker: WorkerProcess) -> None:
    """A stopped worker finishes what runs, and nobody runs it twice."""
    gate = fleet.folder / "stop"
    fleet.suffer("stopped", "stopped-1", f"until:{gate}")
    eventually(lambda: (fleet.folder / "stop.started").exists())
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(worker.stop)
        eventually(lambda: len(fleet.owners()) == 1)
        gate.touch()
        stopping.result()
    assert fleet.receipt("stopped-1")["replayed"] is False
    assert fleet.owners() == {}


def test_a_newcomer_gets_its_part_at_once(fleet: Fleet, worker: WorkerProcess) -> None:
    """When a second worker joins, half of the shards move to it, and calls go on in order meanwhile."""
    ids = [fleet.append("moving", f"moving-{number}") for number in range(50)]
    second = fleet.start("second")
    ids += [fleet.append("moving", f"moving-{number}") for number in range(50, 100)]
    fleet.wait_balanced("w1", "second")
    names = [owner.split("@")[0] for owner in fleet.owners().values()]
    assert (names.count("w1"), names.count("second")) == (8, 8)
    for task_id in ids:
        fleet.receipt(task_id)
    assert fleet.items("moving") == ids
    second.stop()
    assert worker.alive


def test_a_broken_connection_runs_nothing_twice_and_keeps_the_order(
    fleet: Fleet, worker: WorkerProcess
) -> None:
    """While a mutation runs, all connections are cut: its shard takes nothing until it has ended, once."""
    gate = fleet.folder / "cut"
    fleet.suffer("cut", "cut-1", f"until:{gate}")
    ids = [fleet.append("cut", f"cut-{number}") for number in range(2, 6)]
    eventually(lambda: (fleet.folder / "cut.started").exists())
    fleet.broker.client_kill_filter(_type="normal", skipme=True)
    eventually(lambda: "Connection to broker lost" in worker.logs())
    (other,) = fleet.sessions_beside("cut", 1)
    fleet.receipt(fleet.append(other, "beside-cut"))
    assert [fleet.stored(task_id) for task_id in ids] == [None] * len(ids)
    gate.touch()
    for task_id in ids:
        fleet.receipt(task_id)
    assert fleet.items("cut")[1:] == ids
    assert worker.logs().count("CONTEXT.LOAD[cut-1] received") == 1


def test_a_killed_worker_is_replaced_within_a_third_over_a_lease() -> None:
    """After kill -9 in the middle of a mutation, another worker runs it within 1.34 leases + 0.5 s."""
    with Fleet(lease_ms=int(WATCHED_LEASE_S * 1000)) as fleet:
        worker = fleet.start()
        fleet.start("rescuer")
        fleet.wait_balanced("w1", "rescuer")
        gate, session = fleet.folder / "killed", fleet.session_of("w1")
        fleet.suffer(session, "killed-1", f"until:{gate}")
        fleet.append(session, "killed-2")
        eventually((fleet.folder / "killed.started").exists)
        worker.kill()
        since = time.monotonic()
        gate.touch()
        fleet.receipt("killed-2")
        assert (
            time.monotonic() - since < 1.84 * WATCHED_LEASE_S + 0.5
        )  # half a lease is for this busy machine


def test_an_owner_that_slept_over_its_lease_changes_nothing(fleet: Fleet, worker: WorkerProcess) -> None:
    """Stopped in the middle of a mutation and continued later, it is fenced; its caller hears what stands."""
    gate = fleet.folder / "slept"
    fleet.start("heir")
    fleet.wait_balanced("w1", "heir")
    session = fleet.session_of("w1")
    fleet.suffer(session, "slept-1", f"until:{gate}")
    ids = [fleet.append(session, f"slept-{number}") for number in range(2, 6)]
    eventually((fleet.folder / "slept.started").exists)
    os.kill(worker.pid, signal.SIGSTOP)
    eventually(lambda: fleet.owners().get(fleet.shard(session), "").startswith("heir@"), 30)
    gate.touch()
    before = [fleet.receipt(task_id) for task_id in ids]
    os.kill(worker.pid, signal.SIGCONT)
    eventually(lambda: len(set(fleet.owners().values())) == 2, 30)
    late = fleet.receipt(fleet.append(session, "slept-6"))
    assert fleet.items(session)[1:] == [*ids, "slept-6"]
    assert late["items"] == 6
    results = [fleet.receipt(task_id) for task_id in ids]
    assert [result["version"] for result in results] == [result["version"] for result in before]
    assert fleet.receipt("slept-1")["version"] not in {None, late["version"]}


def test_a_warm_restart_under_load_keeps_the_order(fleet: Fleet, worker: WorkerProcess) -> None:
    """Two workers are replaced one after the other while calls run: each scope has them in order, once."""
    sessions = ["load", *fleet.sessions_beside("load", 5)]
    sent = {session: [fleet.append(session, f"{session}/{n}") for n in range(40)] for session in sessions}
    second = fleet.start("second")
    for leaving in (worker, second):
        for session, ids in sent.items():
            ids += [fleet.append(session, f"{session}/{len(ids) + n}") for n in range(40)]
        leaving.stop()
        fleet.start(f"after-{leaving.pid}")
    for session, ids in sent.items():
        receipts = [fleet.receipt(task_id) for task_id in ids]
        assert [receipt["items"] for receipt in receipts] == list(range(1, len(ids) + 1))
        assert fleet.items(session) == ids


def test_results_that_cannot_be_stored_are_stored_later() -> None:
    """A mutation that commits while the result server is away is applied once, and its caller hears of it."""
    with Fleet() as fleet, EmbeddedServer() as results:
        fleet.env["DITTO_RESULT_BACKEND_URL"] = results.url(RESULT_DB)
        fleet.start()
        gate = fleet.folder / "committing"
        fleet.suffer("results", "results-1", f"until:{gate}")
        fleet.append("results", "results-2")
        eventually((fleet.folder / "committing.started").exists, 30)
        results.kill()
        gate.touch()
        eventually(lambda: fleet.items("results"), 30)
        results.start()
        with Redis.from_url(results.redis_url(RESULT_DB)) as fleet.results:
            assert fleet.receipt("results-1", 60)["replayed"] is False
            assert fleet.receipt("results-2", 60)["items"] == 2
