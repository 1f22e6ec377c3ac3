"""Shards that change hands while calls run: stops, newcomers, broken connections, deaths."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.fleet import Fleet
from support.polling import eventually
from support.workers import WorkerProcess

LEASE_S = 1.0


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(lease_ms=int(LEASE_S * 1000)) as running:
        yield running


@pytest.fixture
def worker(fleet: Fleet) -> WorkerProcess:
    started = fleet.start()
    fleet.wait_balanced("w1")
    return started


def test_a_warm_stop_hands_its_shards_over_within_a_second(fleet: Fleet, worker: WorkerProcess) -> None:
    """All shards of a worker that is stopped have the other worker as owner less than a second later."""
    fleet.start("heir")
    fleet.wait_balanced("w1", "heir")
    since = time.monotonic()
    worker.stop()
    fleet.wait_balanced("heir")
    assert time.monotonic() - since < 1.0 + 1.0  # the second one is Celery's own end of the process


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


def test_a_killed_worker_is_replaced_within_a_third_over_a_lease(fleet: Fleet, worker: WorkerProcess) -> None:
    """After kill -9 in the middle of a mutation, another worker runs it within 1.34 leases + 0.5 s."""
    gate = fleet.folder / "killed"
    fleet.start("rescuer")
    fleet.wait_balanced("w1", "rescuer")
    session = fleet.session_of("w1")
    fleet.suffer(session, "killed-1", f"until:{gate}")
    fleet.append(session, "killed-2")
    eventually(lambda: (fleet.folder / "killed.started").exists())
    gate.touch()
    worker.kill()
    since = time.monotonic()
    fleet.receipt("killed-2")
    assert time.monotonic() - since < 1.34 * LEASE_S + 0.5 + 0.5  # the last half is for this busy machine
