"""The content type of tasks and results."""

import json
from datetime import UTC, datetime

import pytest
from celery import signature
from hypothesis import given
from hypothesis import strategies as st
from kombu.serialization import dumps as kombu_dumps
from kombu.serialization import loads as kombu_loads

from ditto_tasks.json_values import InvalidJson
from ditto_tasks.serialization import CONTENT_TYPE, NAME, dumps, loads, register_content_type
from ditto_tasks.task import Reply

TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda children: st.lists(children) | st.dictionaries(TEXT, children),
    max_leaves=20,
)


@given(JSON)
def test_every_json_value_comes_back_equal(value: object) -> None:
    """Also `__type__` objects, big integers and lone surrogates, and with the same types."""
    assert json.dumps(loads(dumps(value))) == json.dumps(value)


def test_a_tagged_object_is_data() -> None:
    """kombu's JSON would make a datetime of one and fail on the other."""
    for tag in ("datetime", "bogus"):
        tagged = {"__type__": tag, "__value__": "2020-01-01T00:00:00"}
        assert loads(dumps(tagged)) == tagged


REFUSED = {"NaN": float("nan"), "-Infinity": float("-inf"), "huge": 10**400, "int key": {1: 2}, "bytes": b"x"}


@pytest.mark.parametrize("value", [*REFUSED.values(), object()], ids=[*REFUSED, "object"])
def test_what_is_not_json_is_refused(value: object) -> None:
    """Nothing is converted in silence."""
    with pytest.raises(InvalidJson):
        dumps({"a": [value]})


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b"[1,]", b"\xff", b"[" * 300 + b"]" * 300, b"[" * 10**6])
def test_what_is_not_json_is_not_read(data: bytes) -> None:
    """Broken, tagged or deep bodies raise InvalidJson, never a RecursionError."""
    with pytest.raises(InvalidJson):
        loads(data)


def test_celerys_own_structures_become_json() -> None:
    """Tuples, signatures, datetimes and replies around content are written as JSON."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    body = ((Reply("N", {"a": 1}),), {"t": now}, {"chain": [signature("x", args=(1,))]})
    assert loads(dumps(body))[:2] == [[{"a": 1}], {"t": "2026-01-02T00:00:00+00:00"}]  # type: ignore[index]  # a list


def test_kombu_knows_the_type() -> None:
    """Registration is idempotent and gives kombu both directions."""
    register_content_type()
    register_content_type()
    content_type, encoding, payload = kombu_dumps({"a": "\ud800"}, serializer=NAME)
    assert content_type == CONTENT_TYPE
    assert kombu_loads(payload, content_type, encoding, accept={CONTENT_TYPE}) == {"a": "\ud800"}


def test_a_reply_shows_its_size_only() -> None:
    """Its repr is what logs and events get."""
    assert repr(Reply("CONTEXT.LOAD", {"secret": "x"})) == "<CONTEXT.LOAD 14 bytes>"
