"""Message content stays in payload and store: nothing of it in logs, events, reprs or errors."""

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.events import EventReceiver
from support.polling import eventually
from support.workers import Deployment

from ditto_tasks.errors import DittoError

CANARY = "canary-77c0"
SECRET = {"id": f"{CANARY}-id", "content": f"{CANARY} text", "metadata": {CANARY: CANARY}}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    module = tmp_path_factory.mktemp("extension")
    (module / "leaky_extension.py").write_text(EXTENSION, "utf-8")
    env = {"DITTO_EXTENSIONS": "leaky_extension:create", "PYTHONPATH": _with(module)}
    with Deployment(env=env) as running:
        yield running


EXTENSION = f"""
from ditto_tasks.extensions import Extension

class Selector:
    def select(self, request, execution):
        raise RuntimeError("{CANARY} from a service, redis://user:{CANARY}@host")

def create(settings):
    return Extension(context={{"selector": Selector()}})
"""


def _with(module: Path) -> str:
    root, tests = Path(__file__).parents[2], Path(__file__).parents[1]
    return ":".join(str(path) for path in (root, tests, module))


class Events:
    """All events that workers send while this is open."""

    def __init__(self, deployment: Deployment) -> None:
        self._connection = deployment.app.connection()
        self.seen: list[dict[str, Any]] = []
        self._receiver = EventReceiver(self._connection, handlers={"*": self.seen.append}, app=deployment.app)
        self._thread = threading.Thread(target=self._receiver.capture, kwargs={"wakeup": False}, daemon=True)
        self._thread.start()
        eventually(lambda: self.of_type("worker-heartbeat"), 15)  # from now on nothing is missed

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if event["type"] == kind]

    def close(self) -> None:
        self._receiver.should_stop = True
        self._thread.join(10)
        self._connection.release()


@pytest.fixture
def events(deployment: Deployment) -> Iterator[Events]:
    watching = Events(deployment)
    yield watching
    watching.close()


def test_no_content_in_logs_and_events(deployment: Deployment, events: Events) -> None:
    """Received, started, succeeded and failed tasks show node, shard, scope hash and sizes only."""
    scope = {"sessionId": f"{CANARY}-{uuid.uuid4()}"}
    deployment.send("CONTEXT.LOAD", scope=scope, sources=[SECRET])
    deployment.send("CONTEXT.UPDATE", scope=scope, add=[SECRET], removeIds=[CANARY])
    deployment.send(
        "CONTEXT.SELECT", options={"consistency": "session"}, scope=scope, purpose="infer", query=CANARY
    )
    failed = deployment.send("CONTEXT.UPDATE", scope=scope, add=[SECRET], expectedVersion=CANARY)
    with pytest.raises(DittoError) as caught:
        failed.get(timeout=20)
    assert CANARY not in repr(caught.value)
    eventually(lambda: len(events.of_type("task-succeeded")) >= 3 and events.of_type("task-failed"), 15)
    assert CANARY not in json.dumps(events.seen, default=str)
    assert CANARY not in deployment.worker.logs()
    received = events.of_type("task-received")
    assert all(event["args"] == "()" and "scope:" in event["kwargs"] for event in received)
    succeeded = [event["result"] for event in events.of_type("task-succeeded")]
    assert all(result.startswith("<CONTEXT.") and result.endswith(" bytes>") for result in succeeded)


def test_what_a_predecessor_gave_is_not_shown(deployment: Deployment, events: Events) -> None:
    """Positional arguments are results of other tasks: events and logs of a step tell of none."""
    binding = {"bind": "context to update", "onMissing": "create"}
    scope = {"sessionId": str(uuid.uuid4())}
    sent = deployment.app.send_task(
        "CONTEXT.UPDATE", args=[{"items": [SECRET]}], kwargs={"scope": scope, "ditto": binding}
    )
    with pytest.raises(DittoError):  # there is no such binding
        sent.get(timeout=20)
    received = eventually(
        lambda: [event for event in events.of_type("task-received") if event["uuid"] == sent.id], 15
    )
    assert received[0]["args"] == "()"
    assert CANARY not in json.dumps(events.seen, default=str) + deployment.worker.logs()


def test_a_services_raw_error_keeps_its_text_to_itself(deployment: Deployment) -> None:
    """What a service raised becomes a ServiceError; its text is in no log, error, result or traceback."""
    provider = {"kind": "provider", "name": "any"}
    sent = deployment.send("CONTEXT.SELECT", context={"items": []}, purpose="infer", strategy=provider)
    with pytest.raises(DittoError) as caught:
        sent.get(timeout=20)
    assert (caught.value.code, CANARY in str(caught.value)) == ("SERVICE_ERROR", False)
    raw = deployment.app.backend.client.get(f"celery-task-meta-{sent.id}")
    assert CANARY.encode() not in raw
    assert CANARY not in deployment.worker.logs()


def test_a_hand_made_message_without_reprs_shows_nothing(deployment: Deployment) -> None:
    """A message whose sender hid nothing is hidden by the worker."""
    task_id = str(uuid.uuid4())
    with deployment.app.connection() as connection:
        connection.Producer().publish(
            [[], {"context": {"items": []}, "purpose": CANARY}, {}],
            serializer="ditto",
            routing_key="ditto.context",
            exchange="",
            headers={"task": "CONTEXT.SELECT", "id": task_id, "ditto_v": 1},
        )
    with pytest.raises(DittoError):
        deployment.app.AsyncResult(task_id).get(timeout=20)
    assert CANARY not in deployment.worker.logs()
