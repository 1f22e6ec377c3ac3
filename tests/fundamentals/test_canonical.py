"""Canonical JSON, ids and scope keys, to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from support.json_strategies import json_values

from ditto_tasks.canonical import canonical_json, canonical_size, number_text, scope_key, stable_id
from ditto_tasks.context import ContextMessage
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import freeze
from ditto_tasks.models import Scope


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (0, "0"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (1.5e-6, "0.0000015"),
        (-1.25e-7, "-1.25e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e16, "10000000000000000"),
        (2**53 + 1, "9007199254740992"),
        (-(2**63), "-9223372036854776000"),
        (10**22, "1e+22"),
        (0.0001, "0.0001"),
        (0.00012, "0.00012"),
        (1.5, "1.5"),
    ],
)
def test_numbers_are_written_as_ecmascript_does(number: float, text: str) -> None:
    """Number-to-string of ECMAScript, integers rounded to double first."""
    assert number_text(number) == text
    assert canonical_json([number]) == f"[{text}]"


def test_keys_are_sorted_by_code_units() -> None:
    """An astral key comes before U+E000 and up, and "10" before "9"."""
    assert canonical_json({"\ue000": 1, "\U00010000": 2, "9": 3, "10": 4}) == (
        '{"10":4,"9":3,"\U00010000":2,"\ue000":1}'
    )


def test_text_is_escaped_as_json_stringify_does() -> None:
    """Quotes, backslash, controls and lone surrogates are escaped; nothing else is."""
    text = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028\u2029é😀\ud800'
    assert canonical_json(text) == '"\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\u2028\u2029é😀\\ud800"'


def test_surrogates_in_a_row_are_a_pair() -> None:
    """Two code units that make a character are that character, as they are in JavaScript."""
    assert canonical_json("\ud83d\ude00") == '"😀"'


@given(json_values())
def test_canonical_form_reads_back(value: Any) -> None:
    """The canonical form is JSON, has no spaces outside text, and its size is its UTF-8 length."""
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text
    assert canonical_size(freeze(value)) == len(text.encode("utf-8"))


def test_known_ids() -> None:
    """The ids that the specification gives as examples."""
    message = {"role": "user", "content": "hi"}
    expected = "message:9017285104d1b249960a30732b8e92f6e2fb3acf8d8e4b2a16c116ad0c1ed211"
    assert stable_id("message", message) == expected
    assert stable_id("message", ContextMessage(role="user", content="hi")) == expected
    assert stable_id("reference", {"uri": "urn:x", "mediaType": "text/plain"}) == (
        "reference:01af0d9aef702f0d3fb95dd400267e503051d45079e0019b17209ee62f43cf9c"
    )
    assert scope_key({"sessionId": "s"}) == (
        "scope:22b5be9d8895e5c90599d299b5a6d62359622dd0b6d62f675f55823d76717e90"
    )
    assert scope_key(Scope(invocation_id="i", session_id="s", turn_id="t")) == (
        "scope:eb29529c3c0664ba697fd3a3f256175978c9117dd7d9cae30250656c1bfbdfbd"
    )


@pytest.mark.parametrize(
    "scope",
    [
        None,
        [],
        {},
        "s",
        {"sessionId": ""},
        {"sessionId": None},
        {"sessionId": "s", "tenant": "t"},
        {"session_id": "s"},
        {"sessionId": 1},
        {1: "s"},
        {"self": "s"},
        {"\ud800": "s"},
        Scope,
    ],
)
def test_bad_scopes(scope: object) -> None:
    """A scope is an object with at least one of three ids, each a nonempty string, and no other key."""
    with pytest.raises(ContextError) as caught:
        scope_key(scope)
    assert caught.value.code == "INVALID_INPUT"


@pytest.mark.parametrize("value", [float("nan"), {"a": object()}, {1: 2}, 10**400])
def test_what_is_not_json_has_no_id(value: object) -> None:
    """canonical_json and stable_id refuse what is not JSON with a typed error."""
    for call in (canonical_json, lambda given: stable_id("p", given)):
        with pytest.raises(ContextError) as caught:
            call(value)
        assert caught.value.code == "INVALID_INPUT"
