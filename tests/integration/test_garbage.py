"""Hand-made garbage in every queue of a real worker."""

import base64
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.polling import eventually
from support.workers import Deployment, every_queue

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import DeadLettered, DittoError
from ditto_tasks.serialization import CONTENT_TYPE

CANARY = "canary-5f1d"  # stands in every message, and may stand in no log
HELLO = {"id": "hello", "content": "hello world"}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment() as running:
        yield running


def message(headers: Any = None, *, body: object = None, **envelope: Any) -> dict[str, Any]:
    """A message as kombu would publish it, with parts replaced."""
    call = [[], {"sources": [{"id": "a", "content": CANARY}]}, {}] if body is None else body
    given = {"task": "CONTEXT.LOAD", "id": str(uuid.uuid4()), "ditto_v": 1}
    return {
        "body": base64.b64encode(json.dumps(call).encode()).decode(),
        "content-type": CONTENT_TYPE,
        "content-encoding": "utf-8",
        "headers": {**given, **(headers or {})},
        "properties": {"body_encoding": "base64", "delivery_tag": CANARY, "delivery_info": {"exchange": "x"}},
        **envelope,
    }


def text(**parts: Any) -> bytes:
    return json.dumps(message(**parts)).encode()


GARBAGE: dict[str, tuple[str, bytes]] = {
    "not JSON": ("NOT_JSON", CANARY.encode()),
    "not UTF-8": ("NOT_JSON", b"\xff\xfe" + CANARY.encode()),
    "deep": ("NOT_JSON", b"[" * 100_000 + b"]" * 100_000),
    "NaN": ("NOT_JSON", b'{"headers": NaN}'),
    "a scalar": ("NOT_A_MESSAGE", b'"%s"' % CANARY.encode()),
    "no properties": ("NOT_A_MESSAGE", b'{"body": "%s"}' % CANARY.encode()),
    "no headers": ("NO_HEADERS", text(headers=None).replace(b'"headers"', b'"other"')),
    "headers are a list": ("NO_HEADERS", json.dumps({**message(), "headers": [CANARY]}).encode()),
    "no task": ("NO_TASK", text(headers={"task": None})),
    "task is an object": ("NO_TASK", text(headers={"task": {CANARY: 1}})),
    "id is a list": ("NO_TASK_ID", text(headers={"id": [CANARY]})),
    "id is too long": ("NO_TASK_ID", text(headers={"id": "x" * 300})),
    "unknown version": ("UNKNOWN_VERSION", text(headers={"ditto_v": 2})),
    "no version": ("UNKNOWN_VERSION", text(headers={"ditto_v": None})),
    "version is true": ("UNKNOWN_VERSION", text(headers={"ditto_v": True})),
    "a tagged header": ("BAD_HEADERS", text(headers={"stamps": {"__type__": "bogus", "__value__": CANARY}})),
    "compressed": ("BAD_HEADERS", text(headers={"compression": "application/x-gzip"})),
    "retries is text": ("BAD_HEADERS", text(headers={"retries": CANARY})),
    "timelimit is text": ("BAD_HEADERS", text(headers={"timelimit": CANARY})),
    "wrong content type": (
        "WRONG_CONTENT_TYPE",
        json.dumps({**message(), "content-type": "application/json"}).encode(),
    ),
    "pickle": (
        "WRONG_CONTENT_TYPE",
        json.dumps({**message(), "content-type": "application/x-python-serialize"}).encode(),
    ),
    "body is not base64": ("BAD_BODY", json.dumps({**message(), "body": "%%%" + CANARY}).encode()),
    "body is an object": ("BAD_BODY", json.dumps({**message(), "body": {CANARY: 1}}).encode()),
    "body is not JSON": (
        "BAD_BODY",
        json.dumps({**message(), "body": base64.b64encode(b"{" + CANARY.encode()).decode()}).encode(),
    ),
    "body is no triple": ("BAD_BODY", text(body={CANARY: 1})),
    "arguments are an object": ("BAD_BODY", text(body=[{CANARY: 1}, {}, {}])),
    "keywords are a list": ("BAD_BODY", text(body=[[], [CANARY], {}])),
    "canvas is text": ("BAD_BODY", text(body=[[], {}, CANARY])),
    "canvas has other keys": ("BAD_BODY", text(body=[[], {}, {"is_eager": True, "id": CANARY}])),
    "unknown task": ("UNKNOWN_TASK", text(headers={"task": "CONTEXT.NOTHING"})),
    "eta is no time": ("INVALID_TASK", text(headers={"eta": CANARY})),
    "stamps name objects": ("UNPROCESSABLE", text(headers={"stamped_headers": [{CANARY: 1}]})),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_dead_lettered_and_the_next_task_runs(deployment: Deployment, kind: str) -> None:
    """Each kind goes to `<queue>:dead` with code and size; its caller hears; no body is logged."""
    code, raw = GARBAGE[kind]
    deployment.broker.delete("ditto.context:dead")
    deployment.broker.lpush("ditto.context", raw)
    letter = eventually(lambda: deployment.broker.rpop("ditto.context:dead"), 20)
    found = json.loads(letter)
    assert found["code"] == code
    assert found["size"] in (len(raw), len(_body(raw)))
    assert set(found) == {"code", "size", "taskId"}
    if found["taskId"]:
        with pytest.raises(DeadLettered) as caught:
            deployment.app.AsyncResult(found["taskId"]).get(timeout=10)
        assert caught.value.code == code
    assert deployment.call("CONTEXT.LOAD", sources=[HELLO]) == {"items": [HELLO]}
    assert CANARY not in deployment.worker.logs()
    assert eventually(lambda: deployment.broker.hlen("unacked") == 0)


def _body(raw: bytes) -> bytes:
    try:
        return base64.b64decode(json.loads(raw)["body"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return b""


@pytest.mark.parametrize("kind", ["not JSON", "unknown task", "body is no triple"])
def test_garbage_in_every_queue_blocks_nothing(deployment: Deployment, kind: str) -> None:
    """Every queue, of domains and of shards, gives up the garbage."""
    code, raw = GARBAGE[kind]
    for queue in every_queue():
        deployment.broker.lpush(queue, raw)
    for queue in every_queue():
        letter = eventually(lambda queue=queue: deployment.broker.rpop(f"{queue}:dead"), 20)  # type: ignore[misc]  # mypy infers no lambda with a default
        assert json.loads(letter)["code"] == code
    scope = {"sessionId": str(uuid.uuid4())}
    assert deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])["items"] == 1
    assert deployment.worker.alive


def test_a_message_cannot_bring_its_own_epoch(deployment: Deployment) -> None:
    """A hand-made `ditto_epoch` would fence off the shard's owner, so it is dropped."""
    scope = {"sessionId": str(uuid.uuid4())}
    body = [[], {"scope": scope, "sources": [HELLO]}, {}]
    sent = message({"ditto_epoch": 2**60}, body=body)
    deployment.broker.lpush("ditto.context", json.dumps(sent))
    assert deployment.app.AsyncResult(sent["headers"]["id"]).get(timeout=10)["items"] == 1
    assert deployment.call("CONTEXT.UPDATE", scope=scope, add=[HELLO])["items"] == 1


def test_a_message_cannot_refuse_itself(deployment: Deployment) -> None:
    """A hand-made `ditto_refuse` would put a refusal into the operation log, so it is dropped."""
    scope = {"sessionId": str(uuid.uuid4())}
    sent = message({"ditto_refuse": "TIMEOUT"}, body=[[], {"scope": scope, "sources": [HELLO]}, {}])
    deployment.broker.lpush("ditto.context", json.dumps(sent))
    assert deployment.app.AsyncResult(sent["headers"]["id"]).get(timeout=10)["items"] == 1


def test_a_hand_made_call_with_a_bad_scope_fails_typed(deployment: Deployment) -> None:
    """Whatever the sender did not check, the worker refuses by name."""
    for scope in ("", None, {}, {"sessionId": ""}, {"other": "x"}, {"sessionId": 1}):
        sent = message(body=[[], {"scope": scope, "sources": [HELLO]}, {}])
        deployment.broker.lpush("ditto.context", json.dumps(sent))
        with pytest.raises(DittoError) as caught:
            deployment.app.AsyncResult(sent["headers"]["id"]).get(timeout=10)
        assert caught.value.code == "INVALID_INPUT"


def test_a_long_scope_id_is_a_scope_like_any_other(deployment: Deployment) -> None:
    """An id of 10 kB becomes a key of the usual length."""
    scope = {"sessionId": "s" * 10_000}
    assert deployment.call("CONTEXT.LOAD", scope=scope, sources=[HELLO])["items"] == 1
    assert deployment.state.exists("ditto:context:" + scope_key(scope))


BROADCASTS = {
    "text": CANARY.encode(),
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "a scalar": b"5",
    "no properties": b'{"a": 1}',
    "a body that is not base64": json.dumps({**message(), "body": "%%%" + CANARY}).encode(),
    "a body that is not JSON": json.dumps({**message(), "content-type": "application/json"}).encode(),
    "a tagged header": text(headers={"x": {"__type__": "datetime", "__value__": 5}}),
}


@pytest.mark.parametrize("kind", BROADCASTS)
def test_garbage_among_broadcasts_ends_no_worker(deployment: Deployment, kind: str) -> None:
    """Remote control goes on after a broadcast that is no message."""
    assert deployment.broker.publish("/0.celery.pidbox", BROADCASTS[kind])
    assert eventually(lambda: deployment.app.control.ping(timeout=1), 20)
    assert CANARY not in deployment.worker.logs()
