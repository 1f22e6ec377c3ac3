"""`celery -A ditto_tasks worker -P processes`: children that open their own connections, and that may die."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.resolver import FACTORY, suffering
from support.workers import Deployment

from ditto_tasks.client import Ditto
from ditto_tasks.errors import ContextError, DittoError

HELLO = {"id": "hello", "content": "hello"}
CALLS = 40


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
