"""Bad input in every field of every CONTEXT node: the specified code, never a raw error."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.contexts import context, item, nested
from support.json_strategies import json_values

from ditto_tasks.context import ContextNodes, ContextServices, InMemoryContextStore
from ditto_tasks.errors import ContextError
from ditto_tasks.models import to_wire

REFERENCE = {"uri": "u", "mediaType": "t", "digest": "d"}
FULL_ITEM = {**item("a", {"k": [1]}, role="user"), "source": REFERENCE}
SCOPE = {"sessionId": "s", "turnId": "t", "invocationId": "i"}
FULL: dict[str, dict[str, Any]] = {
    "CONTEXT.LOAD": {
        "sources": [FULL_ITEM, {"role": "user", "content": "c", "name": "n"}, REFERENCE],
        "resolveReferences": False,
    },
    "CONTEXT.SELECT": {
        "context": context(FULL_ITEM),
        "purpose": "infer",
        "query": "q",
        "limit": 1,
        "maxTokens": 100,
        "strategy": {"kind": "default"},
    },
    "CONTEXT.UPDATE": {
        "context": context(FULL_ITEM),
        "add": [item("b")],
        "ingress": [
            {"id": "c", "sourceNode": "A.B", "content": 1, "reference": REFERENCE, "metadata": {"m": 1}}
        ],
        "removeIds": ["a"],
    },
    "CONTEXT.COMPRESS": {"context": context(FULL_ITEM), "maxItems": 5, "maxTokens": 100},
}
NOT_JSON: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "10**400": 10**400,
    "10000 levels": nested(10_000),
    "bytes": b"x",
    "object": object(),
    "set": {1},
    "class": dict,
    "int keys": {1: 2},
}
ODD_JSON: dict[str, Any] = {
    "null": None,
    "2**70": 2**70,
    "surrogate": "\ud800",
    "200 levels": nested(200),
    "201 levels": nested(201),
    "tagged": {"__type__": "datetime", "__value__": "x"},
    "self": {"self": 1},
    "empty": "",
    "10 kB": "x" * 10_000,
    "true": True,
    "-1": -1,
    "list": [],
}
PLACES_OF_CONTENT = ("content", "query", "metadata", "k", "m", "role", "name")


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in the value."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    result = copy.deepcopy(value)
    target = result
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = new
    return result


def outcome(node: str, request: Any) -> str:
    """The code of the refusal, or "ok" with a result that can be written."""
    try:
        to_wire(ContextNodes().execute(node, request))
    except ContextError as error:
        str(error).encode()  # a message can be printed whatever was in the input
        return error.code
    return "ok"


CASES = [(node, path) for node, request in FULL.items() for path in paths(request)]


@pytest.mark.parametrize(("node", "path"), CASES)
def test_what_is_not_json_is_refused_everywhere(node: str, path: tuple[Any, ...]) -> None:
    """In any place at all it is INVALID_INPUT, whatever a limit or service would have said later."""
    for name, value in NOT_JSON.items():
        assert outcome(node, replaced(FULL[node], path, value)) == "INVALID_INPUT", name


@pytest.mark.parametrize(("node", "path"), CASES)
def test_odd_values_have_a_code(node: str, path: tuple[Any, ...]) -> None:
    """An odd value is taken where content may be, and is a typed refusal elsewhere."""
    for name, value in ODD_JSON.items():
        found = outcome(node, replaced(FULL[node], path, value))
        assert found in ("ok", "INVALID_INPUT", "STRATEGY_UNAVAILABLE", "RESOLVER_UNAVAILABLE"), name
        if path[-1] == "content" and name != "201 levels":
            assert found == "ok", name
        if name == "201 levels" or (
            name == "null" and path[-1] not in ("content", "query", "k", "m", "role", 0)
        ):
            assert found == "INVALID_INPUT", name


def test_every_place_takes_what_it_should() -> None:
    """The inputs that the other tests spoil are good ones."""
    for node, request in FULL.items():
        assert outcome(node, request) == "ok"


@pytest.mark.parametrize("key", [*SCOPE, None])
@pytest.mark.parametrize("name", [*NOT_JSON, *ODD_JSON])
def test_scopes(key: str | None, name: str) -> None:
    """A scope or an id of the wrong kind is INVALID_INPUT; long ids and lone surrogates are ids."""
    value = {**NOT_JSON, **ODD_JSON}[name]
    scope = value if key is None else {**SCOPE, key: value}
    nodes = ContextNodes(services=ContextServices(state_store=InMemoryContextStore()))
    valid = key is not None and name in ("surrogate", "10 kB")
    with pytest.raises(ContextError) as caught:
        nodes.update(scope=scope, add=5)
    assert caught.value.code == ("CONTEXT_NOT_FOUND" if valid else "INVALID_INPUT")


@pytest.mark.parametrize("name", [*NOT_JSON, *ODD_JSON])
def test_expected_versions(name: str) -> None:
    """A version of the wrong kind is INVALID_INPUT, any other is just not the stored one."""
    value = {**NOT_JSON, **ODD_JSON}[name]
    nodes = ContextNodes(services=ContextServices(state_store=InMemoryContextStore()))
    nodes.load(scope=SCOPE, sources=[])
    with pytest.raises(ContextError) as caught:
        nodes.update(scope=SCOPE, expected_version=value)
    assert caught.value.code == ("STATE_CONFLICT" if name in ("surrogate", "10 kB") else "INVALID_INPUT")


def test_extra_fields_are_json_too() -> None:
    """What is kept with an item, message or reference must be JSON; on the input itself it is ignored."""
    for value in NOT_JSON.values():
        for source in (FULL_ITEM, {"role": "user", "content": 1}, REFERENCE):
            assert outcome("CONTEXT.LOAD", {"sources": [{**source, "extra": value}]}) == "INVALID_INPUT"
        assert outcome("CONTEXT.LOAD", {"sources": [], "extra": value}) == "ok"


def test_five_megabytes() -> None:
    """Large content is a matter of the inline limit, not of the parser."""
    large = {"context": context(item("a", "x" * 5_000_000))}
    assert outcome("CONTEXT.UPDATE", large) == "INLINE_LIMIT_EXCEEDED"
    assert outcome("CONTEXT.COMPRESS", {**large, "maxItems": 0}) == "ok"


@given(st.sampled_from(CASES), json_values())
def test_any_json_anywhere(case: tuple[str, tuple[Any, ...]], value: Any) -> None:
    """Whatever JSON stands wherever, the answer is a result or one of the specified codes."""
    node, path = case
    assert outcome(node, replaced(FULL[node], path, value)) in (
        *("ok", "INVALID_INPUT", "STRATEGY_UNAVAILABLE", "RESOLVER_UNAVAILABLE", "BUDGET_UNSATISFIABLE"),
    )


@given(st.sampled_from(list(FULL)), json_values(20))
def test_any_json_at_all(node: str, value: Any) -> None:
    """Any JSON as the whole input is answered with a code; only LOAD's and UPDATE's shapes could pass."""
    assert outcome(node, value) == "INVALID_INPUT"
