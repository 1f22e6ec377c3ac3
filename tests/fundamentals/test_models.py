"""Wire models: camelCase outside, snake_case inside, frozen, absent is not null."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import Cancelled, ContextError, MemoryError, NodeInputError
from ditto_tasks.infer.models import SampleInput
from ditto_tasks.interaction.models import ActMcpInput
from ditto_tasks.json_values import InvalidJson
from ditto_tasks.memory.models import QueryInput
from ditto_tasks.models import (
    Count,
    Json,
    JsonMap,
    NodeError,
    NodeResult,
    Reference,
    Scope,
    Text,
    WireModel,
    from_wire,
    to_wire,
)


class Sample(WireModel):
    """A model with one field of each kind."""

    first_name: Text
    any_value: Json | None = None
    more: JsonMap | None = None
    limit: Count | None = None
    where: Reference | None = None


def test_wire_form_is_camel_case_without_absent_keys() -> None:
    """Absent optional keys are left out, null content that was given is kept."""
    assert to_wire(Sample(first_name="n")) == {"firstName": "n"}
    assert to_wire(Sample(first_name="n", any_value=None)) == {"firstName": "n", "anyValue": None}
    assert to_wire([Sample(first_name="n", where=Reference(uri="u", media_type="t"))]) == [
        {"firstName": "n", "where": {"uri": "u", "mediaType": "t"}}
    ]


@pytest.mark.parametrize("data", [{"firstName": "n", "limit": 3}, {"first_name": "n", "limit": 3}])
def test_both_spellings_are_read(data: dict[str, Any]) -> None:
    """from_wire takes camelCase and snake_case keys."""
    assert from_wire(Sample, data) == Sample(first_name="n", limit=3)


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({}, "/firstName"),
        ({"firstName": 1}, "/firstName"),
        ({"firstName": "n", "other": 1}, "/other"),
        ({"firstName": "n", "self": 1}, "/self"),
        ({"firstName": "n", "limit": True}, "/limit"),
        ({"firstName": "n", "limit": 0}, "/limit"),
        ({"firstName": "n", "where": {"uri": ""}}, "/where/uri"),
        ({"firstName": "n", "more": []}, "/more"),
        ({"firstName": "n", "anyValue": {"a": [float("nan")]}}, "/anyValue/a/0"),
        ({"firstName": "n", "more": {"k": 10**400}}, "/more/k"),
        (None, ""),
        ([], ""),
        ("text", ""),
    ],
)
def test_errors_name_the_path(data: Any, path: str) -> None:
    """A bad input is INVALID_INPUT of the domain's error, with the path of the field."""
    with pytest.raises(NodeInputError) as caught:
        from_wire(Sample, data)
    assert (caught.value.code, caught.value.details) == ("INVALID_INPUT", {"path": path})
    with pytest.raises(MemoryError):
        from_wire(Sample, data, error=MemoryError)


def test_messages_hold_no_input() -> None:
    """What the caller sent is not repeated in the error."""
    with pytest.raises(NodeInputError) as caught:
        from_wire(Sample, {"firstName": {"secret": "hunter2"}})
    assert "hunter2" not in str(caught.value.args)


def test_odd_text_survives() -> None:
    """Lone surrogates pass through models in both directions."""
    data = {"firstName": "\ud800", "anyValue": {"\udc00": ["\ud800"]}, "more": {"\ud800": "x"}}
    assert to_wire(from_wire(Sample, data)) == data


def test_models_are_frozen_at_every_depth() -> None:
    """Neither fields nor what they hold can be changed."""
    sample = from_wire(Sample, {"firstName": "n", "more": {"a": {"b": [1]}}})
    with pytest.raises(ValidationError):
        sample.first_name = "other"
    with pytest.raises(TypeError):
        sample.more["a"]["b"].append(2)


def test_node_result_keeps_null_output() -> None:
    """An output of null is not an absent output."""
    done = {"executionId": "t", "node": "MEMORY.GET", "status": "success", "output": None}
    assert to_wire(from_wire(NodeResult, done)) == done
    failed = NodeResult(
        execution_id="t", node="MEMORY.GET", status="failed", error=NodeError(code="C", message="m")
    )
    assert to_wire(failed) == {
        "executionId": "t",
        "node": "MEMORY.GET",
        "status": "failed",
        "error": {"code": "C", "message": "m"},
    }


def test_what_has_no_wire_form() -> None:
    """Other objects, and plain values nested without end, are refused without a RecursionError."""
    with pytest.raises(TypeError):
        to_wire(object())
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidJson):
        to_wire(deep)


def test_scope_needs_an_id() -> None:
    """A scope without any id is refused, by keyword and from the wire."""
    with pytest.raises(ValidationError):
        Scope()
    with pytest.raises(ContextError):
        Scope.parse({})
    assert Scope.parse({"sessionId": "s", "turnId": "t"}) == Scope(session_id="s", turn_id="t")


def test_cancel_token_keeps_the_first_reason() -> None:
    """A token raises nothing until it is cancelled, then its first reason unchanged."""
    token = CancelToken()
    token.raise_if_cancelled()
    reason = KeyError("stop")
    token.cancel(reason)
    token.cancel(ValueError("later"))
    assert (token.cancelled, token.reason) == (True, reason)
    with pytest.raises(KeyError) as caught:
        token.raise_if_cancelled()
    assert caught.value is reason


def test_cancelled_is_the_default_reason() -> None:
    """Without a reason the token raises Cancelled."""
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        token.raise_if_cancelled()


@pytest.mark.parametrize(
    ("model", "wire", "path"),
    [
        (ActMcpInput, {"operation": "invoke", "server": None, "call": {}}, "/server"),
        (ActMcpInput, {"operation": "discover", "x": 1}, "/x"),
        (ActMcpInput, {"operation": "invoke", "server": "s"}, "/call"),
        (SampleInput, {"messages": [{"role": "user", "content": {"a": 1}}]}, "/messages/0/content"),
        (SampleInput, {"messages": [{"role": "user", "content": 1}]}, "/messages/0/content"),
        (QueryInput, {"order_by": [{"field": 1}]}, "/order_by/0/field"),
    ],
)
def test_paths_name_no_variant_of_a_union(model, wire, path):
    """The path of an error leads through keys and positions of the input, and through nothing else."""
    with pytest.raises(NodeInputError) as caught:
        from_wire(model, wire)
    assert caught.value.details == {"path": path}
