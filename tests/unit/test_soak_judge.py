"""The soak's judge: each kind of broken promise is seen, and a clean run is clean."""

from typing import Any

import pytest
from support.history import Call, Chain, judge

CALLS = [Call("a", "s", False), Call("b", "s", False), Call("r", "s", True)]


def chain(*operations: str) -> Chain:
    """A scope whose versions v0, v1, ... each added one operation."""
    made = Chain()
    for place, operation in enumerate(operations):
        items = [{"id": name} for name in [*made.items, operation]]
        made.write({"version": f"v{place}", "context": {"items": items}})
    return made


def success(version: str) -> dict[str, Any]:
    return {"status": "SUCCESS", "result": {"version": version, "operationId": "o"}}


SOUND: dict[str, dict[str, Any]] = {"a": success("v0"), "b": success("v1"), "r": success("v1")}


@pytest.mark.parametrize(
    ("operations", "changed", "broken"),
    [
        ("ab", {}, []),
        ("b", {"b": success("v0"), "r": success("v0")}, ["lost"]),
        ("aab", {"b": success("v2"), "r": success("v2")}, ["doubled"]),
        ("ba", {"a": success("v1"), "b": success("v0")}, ["disordered"]),
        ("ab", {"r": success("v0")}, ["disordered"]),
        ("ab", {"b": None}, ["unheard"]),
        ("ab", {"b": success("v7")}, ["contradictions"]),
        ("ab", {"b": {"status": "FAILURE", "result": {}}}, ["contradictions"]),
        ("ab", {"r": success("v9")}, ["contradictions"]),
    ],
)
def test_each_broken_promise_is_seen(operations: str, changed: dict[str, Any], broken: list[str]) -> None:
    """What callers were told is held against the chain, promise by promise."""
    results = {name: told for name, told in {**SOUND, **changed}.items() if told is not None}
    verdict = judge([CALLS], results, results, {"s": chain(*operations)})
    assert [name for name, count in vars(verdict).items() if count] == broken


def test_a_result_that_changes_later_is_a_contradiction() -> None:
    """A redelivery may store a result again, but not another one."""
    later = {**SOUND, "b": {"status": "FAILURE", "result": {}}}
    assert judge([CALLS], SOUND, later, {"s": chain("a", "b")}).contradictions == 1


def test_a_version_that_is_no_successor_is_seen() -> None:
    """A write that dropped what the version before held breaks the chain."""
    cut = chain("a")
    cut.write({"version": "v1", "context": {"items": [{"id": "b"}]}})
    assert judge([CALLS], SOUND, SOUND, {"s": cut}).broken == 1
