"""Recorded runs of the reference runtime: 594 inputs, each with its result or its error code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ditto_tasks.canonical import scope_key, stable_id
from ditto_tasks.context import ContextItem, ContextNodes, ContextPolicy
from ditto_tasks.context.text import estimated_tokens
from ditto_tasks.errors import ContextError
from ditto_tasks.models import to_wire

FILES = ("context-edges.jsonl", "context-random.jsonl")


def _vectors() -> Iterator[Any]:
    for name in FILES:
        for line in (Path(__file__).parent / name).read_text("utf-8").splitlines():
            vector = json.loads(line)
            yield pytest.param(vector, id=vector["name"])


def _inline_bytes(content: object) -> int:
    return ContextItem(id="i", content=content).inline_bytes


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "stableId": lambda value: stable_id(value["prefix"], value["value"]),
    "scopeKey": scope_key,
    "bytes": _inline_bytes,
    "tokens": lambda content: estimated_tokens(_inline_bytes(content)),
}


def _run(vector: dict[str, Any]) -> object:
    nodes = ContextNodes(policy=vector["policy"])
    operation = vector["op"]
    if operation == "policy":
        return to_wire(ContextPolicy.parse(vector["policy"]))
    if operation in OPERATIONS:
        return OPERATIONS[operation](vector["input"])
    return to_wire(nodes.execute(f"CONTEXT.{operation.upper()}", vector["input"]))


def _same(left: object, right: object) -> bool:
    """Equality as the vectors mean it: numbers as doubles, and true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return float(left) == float(right)
    return left == right


@pytest.mark.parametrize("vector", list(_vectors()))
def test_vector_gives_what_the_reference_gave(vector: dict[str, Any]) -> None:
    """The result, or the code of the error, is the recorded one."""
    if "error" in vector:
        with pytest.raises(ContextError) as caught:
            _run(vector)
        assert caught.value.code == vector["error"]
    else:
        assert _same(_run(vector), vector["ok"])


def test_all_vectors_are_read() -> None:
    """None of the 594 recorded vectors is left out."""
    assert len(list(_vectors())) == 594
