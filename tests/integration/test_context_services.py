"""Services of a worker's CONTEXT tasks: how many run, how a cancel reaches them, what they are lent."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain
from support.polling import eventually
from support.resolver import suffering
from support.services_extension import KEY, NAME
from support.workers import RESULT_TIMEOUT_S, Deployment

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import Cancelled

CONCURRENCY = 2
OVER_THE_POLL_S = 0.8  # a running call asks for its cancel key at most every 0.5 s


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    config = tmp_path_factory.mktemp("config") / "ditto.yaml"
    config.write_text(f"workers:\n  context:\n    concurrency: {CONCURRENCY}\n")
    with Deployment(env={"DITTO_EXTENSIONS": NAME, "DITTO_CONFIG": str(config)}) as running:
        yield running


def begun(gate: Path) -> bool:
    return Path(f"{gate}.started").exists()


def hanging(*gates: Path) -> dict[str, object]:
    """A LOAD that waits for each of these files, and for a while after the first."""
    first, *rest = (f"until:{gate}" for gate in gates)
    return suffering(first, f"wait:{OVER_THE_POLL_S}", *rest)


def test_no_more_calls_run_than_concurrency_allows(deployment: Deployment, tmp_path: Path) -> None:
    """Of four calls two begin; as soon as one has ended the next begins, and all succeed."""
    gates = [tmp_path / str(number) for number in range(4)]
    calls = [deployment.send("CONTEXT.LOAD", **suffering(f"until:{gate}")) for gate in gates]

    def running() -> list[Path]:
        return [gate for gate in gates if begun(gate) and not gate.exists()]

    eventually(lambda: len(running()) == CONCURRENCY)
    threading.Event().wait(0.5)  # for a third to begin, if it could
    assert sum(map(begun, gates)) == CONCURRENCY
    running()[0].touch()
    eventually(lambda: sum(map(begun, gates)) == CONCURRENCY + 1)
    for gate in gates:
        gate.touch()
    assert [len(call.get(timeout=RESULT_TIMEOUT_S)["items"]) for call in calls] == [1] * 4


def test_a_call_that_waits_for_its_turn_can_be_cancelled(deployment: Deployment, tmp_path: Path) -> None:
    """It ends as CANCELLED while those before it still run."""
    gates = [tmp_path / str(number) for number in range(CONCURRENCY)]
    calls = [deployment.send("CONTEXT.LOAD", **suffering(f"until:{gate}")) for gate in gates]
    eventually(lambda: all(map(begun, gates)))
    waiting = deployment.send("CONTEXT.LOAD", sources=[])
    deployment.app.coordination.cancel(waiting.id)
    with pytest.raises(Cancelled):
        waiting.get(timeout=RESULT_TIMEOUT_S)
    for gate in gates:
        gate.touch()
    assert all(call.get(timeout=RESULT_TIMEOUT_S) for call in calls)


@pytest.mark.parametrize("scoped", [False, True])
def test_a_cancel_reaches_a_call_that_runs(deployment: Deployment, tmp_path: Path, scoped: bool) -> None:
    """The next source is not resolved, nothing is written, and the worker takes the next call."""
    first, second = tmp_path / "first", tmp_path / "second"
    scope = {"sessionId": str(uuid.uuid4())}
    wire: dict[str, Any] = {**hanging(first, second), **({"scope": scope} if scoped else {})}
    call = deployment.send("CONTEXT.LOAD", **wire)
    eventually(lambda: begun(first))
    deployment.app.coordination.cancel(call.id)
    first.touch()
    with pytest.raises(Cancelled) as caught:
        call.get(timeout=RESULT_TIMEOUT_S)
    assert caught.value.code == "CANCELLED"
    assert not begun(second)
    assert deployment.state.get("ditto:context:" + scope_key(scope)) is None
    assert deployment.call("CONTEXT.LOAD", scope=scope, sources=[])["items"] == 0


def test_a_deadline_reaches_a_call_that_runs(deployment: Deployment, tmp_path: Path) -> None:
    """A call whose deadline passes while it runs ends as TIMEOUT at its next check point."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    seconds, _ = deployment.broker.time()  # type: ignore[misc]  # redis-py's stubs
    options = {"deadlineMs": (seconds + 1) * 1000}
    wire = suffering(f"wait:{1 + OVER_THE_POLL_S}", f"until:{second}")
    call = deployment.send("CONTEXT.LOAD", options=options, **wire)
    with pytest.raises(Cancelled) as caught:
        call.get(timeout=RESULT_TIMEOUT_S)
    assert caught.value.code == "TIMEOUT"
    assert not begun(second)


def test_what_was_committed_is_not_cancelled(deployment: Deployment, tmp_path: Path) -> None:
    """A second delivery that is cancelled while it runs answers with the receipt of the first."""
    gate, second = tmp_path / "gate", tmp_path / "second"
    gate.touch()
    second.touch()
    scope = {"sessionId": str(uuid.uuid4())}
    wire = {"scope": scope, **hanging(gate, second)}
    options = {"operationId": "once"}
    first = deployment.call("CONTEXT.LOAD", options=options, **wire)
    Path(f"{gate}.started").unlink()
    gate.unlink()
    again = deployment.send("CONTEXT.LOAD", options=options, **wire)
    eventually(lambda: begun(gate))
    deployment.app.coordination.cancel(again.id)
    gate.touch()
    receipt = again.get(timeout=RESULT_TIMEOUT_S)
    assert (receipt["version"], receipt["replayed"]) == (first["version"], True)


def test_services_are_lent_a_client_of_the_task(deployment: Deployment) -> None:
    """`execution.runtime` has the root id and the deadline of the task, and what it sends is run."""
    seconds, _ = deployment.broker.time()  # type: ignore[misc]  # redis-py's stubs
    deadline = (seconds + 60) * 1000
    task = deployment.app.signature
    wire = {**suffering("send:a"), "ditto": {"deadlineMs": deadline}}
    steps = [task("CONTEXT.LOAD", kwargs=each, immutable=True) for each in ({"sources": []}, wire)]
    root, last = str(uuid.uuid4()), str(uuid.uuid4())
    chain(steps[0].set(task_id=root), steps[1].set(task_id=last), app=deployment.app).apply_async()
    result = deployment.app.AsyncResult(last).get(timeout=RESULT_TIMEOUT_S)
    lent = result["items"][0]["content"]
    assert (lent["root"], lent["deadline"]) == (root, deadline)
    sent = deployment.app.AsyncResult(lent["sent"]).get(timeout=RESULT_TIMEOUT_S)
    assert (sent["status"], sent["output"]) == ("success", {"written": True})
    assert deployment.call("INFER.CACHE.LOOKUP", key=KEY)["output"] == {"hit": True, "value": "send:a"}
