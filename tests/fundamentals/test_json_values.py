"""The JSON domain: what is accepted comes back equal, what is not is refused with its path."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from support.json_strategies import json_values

from ditto_tasks.json_values import FrozenDict, FrozenList, InvalidJson, decode, encode, freeze


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(json_values())
def test_frozen_equals_plain(value: Any) -> None:
    """A frozen value equals the plain one, and freezing it again gives the very same object."""
    frozen = freeze(value)
    assert frozen == value
    assert freeze(frozen) is frozen


@given(json_values())
def test_bytes_come_back_equal(value: Any) -> None:
    """decode(encode(v)) equals v, the types of its numbers included."""
    text = repr(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = repr(decode(encode(value)))  # two surrogates in a row may have become one character
    assert repr(decode(encode(value))) == text


@pytest.mark.parametrize("number", [2**64, -(2**70), 2**63, 10**300, 2**53 + 1])
def test_integers_keep_their_digits(number: int) -> None:
    """Integers beyond 64 bits are written and read exactly."""
    assert decode(encode({"n": number})) == {"n": number}


def test_lone_surrogates_are_escaped() -> None:
    """A lone surrogate becomes its escape; other text is raw UTF-8."""
    assert encode(["\ud800é"]) == b'["\\ud800\xc3\xa9"]'
    assert decode(encode({"\udfff": "\ud800"})) == {"\udfff": "\ud800"}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), ""),
        ({"a": [1, float("inf")]}, "/a/1"),
        ({"a": {"b": 10**400}}, "/a/b"),
        ([-(2**1024)], "/0"),
        ({"x/y~": object()}, "/x~1y~0"),
        ([b"bytes"], "/0"),
        ([(1, 2)], "/0"),
        ([{1, 2}], "/0"),
        ({"a": {1: 2}}, "/a"),
        ({"\ud800": float("nan")}, "/\\ud800"),
    ],
)
def test_outside_the_domain(value: object, path: str) -> None:
    """Everything that is not JSON is refused, and the path is a pointer to it."""
    with pytest.raises(InvalidJson) as caught:
        freeze(value)
    assert caught.value.path == path


def test_two_hundred_levels_are_the_limit() -> None:
    """200 levels are content, 201 are not, and a cycle or 10,000 levels are no RecursionError."""
    assert freeze(nested(200)) == nested(200)
    endless: list[Any] = []
    endless.append(endless)
    for value in (nested(201), nested(10_000), endless, {"a": nested(200)}, [freeze(nested(200))]):
        with pytest.raises(InvalidJson, match="nested too deeply"):
            freeze(value)


@pytest.mark.parametrize("data", [b"[" * 257 + b"]" * 257, b"[" * 100_000, b'{"a":' * 5_000])
def test_deep_bytes_are_refused(data: bytes) -> None:
    """Bytes of any depth are refused or cut short, never a RecursionError."""
    with pytest.raises(InvalidJson):
        decode(data)


def test_256_levels_are_read() -> None:
    """A message may wrap content of 200 levels in some more."""
    assert decode(encode(nested(256))) == nested(256)


@pytest.mark.parametrize(
    "data", [b"NaN", b"[Infinity]", b"-Infinity", b"{", b"", b"\xff", b"1" * 5_000, b"[1] x"]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    """Constants that JSON lacks, broken text and broken UTF-8 are refused."""
    with pytest.raises(InvalidJson):
        decode(data)


MUTATORS = {
    *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update"),
    *("setdefault", "__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__"),
}
CHANGES: list[Callable[[Any], object]] = [
    lambda frozen: frozen["a"].append(1),
    lambda frozen: frozen["a"].__setitem__(0, 1),
    lambda frozen: frozen["a"].sort(),
    lambda frozen: frozen["a"].__iadd__([1]),
    lambda frozen: frozen.update(a=1),
    lambda frozen: frozen.setdefault("z", 1),
    lambda frozen: frozen.pop("a"),
    lambda frozen: frozen.__delitem__("a"),
    lambda frozen: frozen.__ior__({"b": 1}),
    lambda frozen: frozen["d"].clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_values_refuse_changes(change: Callable[[Any], object]) -> None:
    """Every way to change a frozen list or dict raises TypeError."""
    with pytest.raises(TypeError, match="is frozen"):
        change(freeze({"a": [1, 2], "d": {"e": 1}}))


def test_every_mutator_is_refused() -> None:
    """No method that changes a list or a dict is left to the frozen kinds."""
    for kind, plain in ((FrozenList, list), (FrozenDict, dict)):
        kept = {name for name in vars(plain) if getattr(kind, name) is getattr(plain, name, None)}
        assert not kept & MUTATORS


def test_frozen_values_copy_and_pickle() -> None:
    """Copies are the same object; pickle gives an equal frozen one."""
    frozen = freeze({"a": [{"b": None}]})
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    again = pickle.loads(pickle.dumps(frozen))  # noqa: S301 - made here
    assert again == frozen
    assert isinstance(again, FrozenDict)


def test_a_forged_frozen_value_is_checked() -> None:
    """A frozen dict that freeze did not make is not trusted."""
    with pytest.raises(InvalidJson):
        freeze(FrozenDict({"a": object()}))


def test_subclasses_become_what_they_extend() -> None:
    """A str, int or dict of a subclass is taken as plain JSON."""

    class Name(str):
        __slots__ = ()

    frozen = freeze({Name("k"): Name("v"), "n": type("N", (int,), {})(3)})
    assert frozen == {"k": "v", "n": 3}
    assert [type(each) for pair in frozen.items() for each in pair] == [str, str, str, int]
