"""`celery -A ditto_tasks worker -P processes`: children that open their own connections, and that may die."""

import os
import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.fleet import QUIET, Fleet
from support.polling import eventually
from support.resolver import FACTORY, suffering
from support.workers import Deployment, WorkerProcess

from ditto_tasks.client import Ditto
from ditto_tasks.errors import ContextError, DittoError

HELLO = {"id": "hello", "content": "hello"}
CALLS = 40
TIMEOUT_MS = 600_000  # of a mutation; longer than any test waits, for none of them may end by it


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    env = {"DITTO_EXTENSIONS": FACTORY}
    with Deployment(args=["-P", "processes", "-c", "2"], env=env, log_level="INFO") as running:
        yield running


def test_nodes_run_in_children(deployment: Deployment) -> None:
    """Explicit, scoped and other domains' calls succeed, refusals are typed, and a scope's order stands."""
    scope = {"sessionId": str(uuid.uuid4())}
    assert deployment.call("CONTEXT.LOAD", sources=[HELLO]) == {"items": [HELLO]}
    deployment.call("CONTEXT.LOAD", scope=scope, sources=[])
    sent = [
        deployment.send("CONTEXT.UPDATE", scope=scope, add=[{"id": str(number), "content": 1}])
        for number in range(CALLS)
    ]
    assert [call.get(timeout=30)["items"] for call in sent] == list(range(1, CALLS + 1))
    message = {"role": "user", "content": "Why?"}
    assert deployment.call("INFER.REASONING.SAMPLE", messages=[message])["status"] == "success"
    with pytest.raises(ContextError, match="INVALID_INPUT"):
        deployment.call("CONTEXT.LOAD", sources=[{"id": ""}])


def test_a_child_that_dies_takes_no_other_call_with_it(deployment: Deployment, tmp_path: Path) -> None:
    """Its caller gets a typed error, nothing was written, and later calls of the scope and others run."""
    scope = {"sessionId": str(uuid.uuid4())}
    deadly = deployment.send("CONTEXT.LOAD", scope=scope, **suffering(f"die:{tmp_path / 'deaths'}"))
    after = deployment.send("CONTEXT.LOAD", scope=scope, sources=[HELLO])
    with Ditto(deployment.app.settings) as client, pytest.raises(DittoError) as caught:
        client.result(deadly.id).get(timeout=30)
    assert caught.value.code in {"TASK_FAILED", "DEAD_LETTERED"}
    assert after.get(timeout=30)["items"] == 1
    assert deployment.call("CONTEXT.LOAD", sources=[HELLO]) == {"items": [HELLO]}
    assert deployment.worker.alive


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(mutation_timeout_ms=TIMEOUT_MS) as running:
        yield running


@pytest.fixture
def worker(fleet: Fleet) -> WorkerProcess:
    """A worker with one child, that holds all shards."""
    started = fleet.worker(args=[*QUIET, "-P", "processes", "-c", "1"]).start()
    fleet.wait_balanced("w1")
    return started


def test_a_warm_stop_ends_with_the_mutation_that_a_child_runs(fleet: Fleet, worker: WorkerProcess) -> None:
    """Its other shards are handed over at once, and it ends when the child has ended, not at a timeout."""
    gate = fleet.folder / "stop"
    fleet.suffer("stopped", "stopped-1", f"until:{gate}")
    eventually((fleet.folder / "stop.started").exists)
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(worker.stop)
        eventually(lambda: list(fleet.owners()) == [fleet.shard("stopped")])
        gate.touch()
        stopping.result()
    assert fleet.receipt("stopped-1")["replayed"] is False
    assert fleet.owners() == {}
    assert fleet.rows()[fleet.shard("stopped")].depth == 0


def test_a_warm_stop_ends_with_the_calls_that_a_child_has_not_confirmed(
    fleet: Fleet, worker: WorkerProcess
) -> None:
    """A call that a child got and did not begin when its worker was stopped is run and acknowledged."""
    (stats,) = fleet.app.control.inspect().stats().values()
    (child,) = stats["pool"]["processes"]
    os.kill(child, signal.SIGSTOP)
    fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": [HELLO]}, task_id="unconfirmed")
    fleet.append("stopped", "stopped-1")
    eventually(lambda: "[unconfirmed] received" in worker.logs() and "[stopped-1] received" in worker.logs())
    assert fleet.app.control.ping(timeout=20, limit=1)  # answered in a later turn of its loop
    with ThreadPoolExecutor() as threads:
        stopping = threads.submit(worker.stop)
        eventually(lambda: fleet.owners() == {})
        os.kill(child, signal.SIGCONT)
        stopping.result()
    assert fleet.receipt("unconfirmed") == {"items": [HELLO]}
    assert (fleet.broker.llen("ditto.context"), fleet.broker.hlen("unacked")) == (0, 0)
    assert fleet.rows()[fleet.shard("stopped")].depth == 1  # it waited for the child, and nobody began it


def test_a_broken_connection_forgets_no_message_of_a_shard(fleet: Fleet, worker: WorkerProcess) -> None:
    """Messages that wait for a child when the connections are cut run after it, each once."""
    gate = fleet.folder / "cut"
    fleet.suffer("cut", "cut-1", f"until:{gate}")
    eventually((fleet.folder / "cut.started").exists)
    others = fleet.sessions_beside("cut", 5)
    ids = [fleet.append(session, f"behind-{session}") for session in others]
    eventually(lambda: all(f"[{task_id}] received" in worker.logs() for task_id in ids))
    fleet.broker.client_kill_filter(_type="normal", skipme=True)
    eventually(lambda: "Connection to broker lost" in worker.logs())
    fleet.wait_balanced("w1")
    gate.touch()
    assert fleet.receipt("cut-1")["replayed"] is False
    for session, task_id in zip(others, ids, strict=True):
        fleet.receipt(task_id)
        assert fleet.items(session) == [task_id]
