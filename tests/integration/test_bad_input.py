"""Bad input of every kind, in every field of the CONTEXT nodes, against a real worker."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.workers import Deployment

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, DittoError, NodeInputError, PublishError

HELLO = {"id": "hello", "content": "hello world"}


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "null": None,
    "a number": 1.5,
    "true": True,
    "text": "x",
    "NaN": float("nan"),
    "infinity": float("inf"),
    "2**70": 2**70,
    "10**400": 10**400,
    "201 deep": nested(201),
    "10,000 deep": nested(10_000),
    "a lone surrogate": "\ud800",
    "a tagged object": {"__type__": "bogus", "__value__": "x"},
    "a set": {1},
    "bytes": b"x",
    "an int key": {1: "x"},
}
FIELDS = {
    "CONTEXT.LOAD": ["sources", "resolveReferences", "expectedVersion"],
    "CONTEXT.SELECT": ["purpose", "limit", "maxTokens", "strategy", "expectedVersion"],
    "CONTEXT.UPDATE": ["add", "ingress", "removeIds", "expectedVersion"],
    "CONTEXT.COMPRESS": ["maxItems", "maxTokens", "expectedVersion"],
}
NEEDED = {"CONTEXT.SELECT": {"purpose": "infer"}, "CONTEXT.LOAD": {"sources": []}}
GOOD = {
    ("CONTEXT.LOAD", "resolveReferences", "true"),
    ("CONTEXT.SELECT", "expectedVersion", "text"),
}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment() as running:
        yield running


@pytest.fixture
def scope(deployment: Deployment) -> dict[str, str]:
    fresh = {"sessionId": str(uuid.uuid4())}
    deployment.call("CONTEXT.LOAD", scope=fresh, sources=[HELLO])
    return fresh


def stored(deployment: Deployment, scope: dict[str, str]) -> object:
    return deployment.state.get("ditto:context:" + scope_key(scope))


@pytest.mark.parametrize(
    ("node", "field"), [(node, field) for node, names in FIELDS.items() for field in names]
)
def test_a_bad_field_is_refused_and_changes_nothing(
    deployment: Deployment, scope: dict[str, str], node: str, field: str
) -> None:
    """Every bad value of every field: a typed refusal, state and version unchanged, the worker lives."""
    before = stored(deployment, scope)
    for kind, value in VALUES.items():
        wire = {**NEEDED.get(node, {}), "scope": scope, field: value}
        with pytest.raises(ContextError) as caught:
            deployment.call(node, **wire)
        allowed = {"INVALID_INPUT", "STATE_CONFLICT", "RESOLVER_UNAVAILABLE"}
        assert caught.value.code in allowed, (kind, caught.value)
        assert stored(deployment, scope) == before, kind
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO]}


@pytest.mark.parametrize(
    "kind", ["NaN", "infinity", "10**400", "201 deep", "10,000 deep", "a set", "bytes", "an int key"]
)
def test_content_outside_of_json_is_refused_by_the_sender(
    deployment: Deployment, scope: dict[str, str], kind: str
) -> None:
    """INVALID_INPUT names the path, and nothing is sent."""
    with pytest.raises(ContextError) as caught:
        deployment.call("CONTEXT.UPDATE", scope=scope, add=[{"id": "a", "content": VALUES[kind]}])
    assert caught.value.code == "INVALID_INPUT"
    assert str((caught.value.details or {})["path"]).startswith("/add/0/content")
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO]}


@pytest.mark.parametrize(
    "content",
    [
        "\ud800",
        {"\udfff": "\ud800 and text"},
        2**70,
        -(2**63) - 1,
        10**300,
        {"__type__": "bogus", "__value__": "x"},
        {"__type__": "datetime", "__value__": "2020-01-01T00:00:00"},
        nested(200),
        "\u2028 \x00 \x7f",
        None,
        [1.0, -0.0, 1e-7, 5e-324],
    ],
    ids=repr,
)
def test_odd_content_comes_back_equal(deployment: Deployment, scope: dict[str, str], content: Any) -> None:
    """What is JSON survives queue, state and result: lone surrogates, big integers, tagged objects, depth."""
    deployment.call("CONTEXT.UPDATE", scope=scope, add=[{"id": "odd", "content": content}])
    item = deployment.call("CONTEXT.LOAD", scope=scope)["items"][1]
    assert json.dumps(item) == json.dumps({"id": "odd", "content": content})


def test_wire_keys_that_are_python_names_do_no_harm(deployment: Deployment, scope: dict[str, str]) -> None:
    """`self`, `task_id`, `args` and the like are unknown fields, and CONTEXT ignores those."""
    odd = {"self": 1, "args": 2, "kwargs": 3, "task_id": 4, "upstream": 5, "cls": 6, "__class__": 7}
    sent = deployment.app.send_task("CONTEXT.UPDATE", kwargs={**odd, "scope": scope, "removeIds": ["hello"]})
    assert sent.get(timeout=20)["items"] == 0
    task = deployment.app.tasks["CONTEXT.UPDATE"]
    assert task.delay(**odd, scope=scope).get(timeout=20)["items"] == 0
    assert task.s(**odd, scope=scope).apply_async().get(timeout=20)["items"] == 0


def test_too_much_content_is_refused_before_it_is_sent(deployment: Deployment, scope: dict[str, str]) -> None:
    """5 MB is MESSAGE_TOO_LARGE at the sender; 1 MB meets the inline limit in the worker."""
    big = [{"id": "big", "content": "x" * 5_000_000}]
    with pytest.raises(PublishError) as caught:
        deployment.call("CONTEXT.UPDATE", scope=scope, add=big)
    assert caught.value.code == "MESSAGE_TOO_LARGE"
    with pytest.raises(ContextError) as inline:
        deployment.call("CONTEXT.UPDATE", scope=scope, add=[{"id": "big", "content": "x" * 1_000_000}])
    assert inline.value.code == "INLINE_LIMIT_EXCEEDED"
    assert deployment.call("CONTEXT.LOAD", scope=scope) == {"items": [HELLO]}


@pytest.mark.parametrize("scope", [None, "", {}, {"sessionId": ""}, {"sessionId": None}, {"other": "x"}, []])
def test_a_bad_scope_is_refused_by_the_sender(deployment: Deployment, scope: object) -> None:
    """Nothing is published for a scope that names no state."""
    with pytest.raises(ContextError) as caught:
        deployment.call("CONTEXT.UPDATE", scope=scope, add=[HELLO])
    assert caught.value.code == "INVALID_INPUT"


def test_other_domains_refuse_what_is_not_json_as_well(deployment: Deployment) -> None:
    """Their refusal at the sender is a NodeInputError with the path."""
    with pytest.raises(NodeInputError) as caught:
        deployment.call("MEMORY.SEARCH", query={"a": float("nan")})
    assert (caught.value.code, caught.value.details) == ("INVALID_INPUT", {"path": "/query/a"})


def test_state_that_nobody_can_read_is_a_typed_error(deployment: Deployment, scope: dict[str, str]) -> None:
    """Corrupt JSON is INVALID_STATE and a key of another type a StateBackendError; neither is touched."""
    key = "ditto:context:" + scope_key(scope)
    deployment.state.set(key, "{not json", px=60_000)
    for wire in ({"add": [HELLO]}, {"maxItems": 1}):
        node = "CONTEXT.UPDATE" if "add" in wire else "CONTEXT.COMPRESS"
        with pytest.raises(DittoError) as caught:
            deployment.call(node, scope=scope, **wire)
        assert caught.value.code == "INVALID_STATE"
    assert deployment.state.get(key) == b"{not json"
    deployment.state.delete(key)
    deployment.state.lpush(key, "x")
    with pytest.raises(DittoError) as wrong:
        deployment.call("CONTEXT.UPDATE", scope=scope, add=[HELLO])
    assert wrong.value.code == "STATE_BACKEND_REFUSED"
    deployment.state.delete(key)
