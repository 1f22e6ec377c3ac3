"""The checks that every CONTEXT input is made of; each refusal is INVALID_INPUT with a path."""

from __future__ import annotations

from typing import Final

from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import FrozenDict, InvalidJson, JsonObject, JsonValue, freeze
from ditto_tasks.models import WireModel

Fields = dict[str, object]
SAFE_INTEGER: Final = 2**53 - 1
MAX_COUNT: Final = 1_000_000


def refuse(path: str, reason: str) -> ContextError:
    return ContextError.invalid_input(path, reason)


def an_object(value: object, path: str) -> Fields:
    """A plain object, or the wire form of a model."""
    if isinstance(value, dict):
        return value
    if isinstance(value, WireModel):
        return {**value.wire_form()}
    raise refuse(path, "must be an object")


def an_array(value: object, path: str) -> list[object]:
    """A JSON array; Python callers may give a tuple."""
    if isinstance(value, (list, tuple)):
        return list(value)
    raise refuse(path, "must be an array")


def nonempty(fields: Fields, key: str, path: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise refuse(f"{path}/{key}", "must be a nonempty string")
    return value


def optional_nonempty(fields: Fields, key: str, path: str) -> str | None:
    return nonempty(fields, key, path) if key in fields else None


def safe_integer(value: object) -> int | None:
    """A JavaScript safe integer (1.0 is 1), or None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -SAFE_INTEGER <= value <= SAFE_INTEGER or value != int(value):
        return None
    return int(value)


def count(fields: Fields, key: str, path: str = "", *, low: int = 0) -> int | None:
    """An optional whole number from `low` to a million."""
    if key not in fields:
        return None
    number = safe_integer(fields[key])
    if number is None or not low <= number <= MAX_COUNT:
        raise refuse(f"{path}/{key}", f"must be a whole number from {low} to {MAX_COUNT}")
    return number


def content(fields: Fields, key: str, path: str) -> JsonValue:
    """Required content: any JSON, null included."""
    if key not in fields:
        raise refuse(f"{path}/{key}", "is missing")
    return frozen(fields[key], f"{path}/{key}")


def optional_object(fields: Fields, key: str, path: str) -> JsonObject | None:
    """An optional object that holds JSON."""
    if key not in fields:
        return None
    value = fields[key]
    if not isinstance(value, dict):
        raise refuse(f"{path}/{key}", "must be an object")
    return frozen_object(value, f"{path}/{key}")


def frozen(value: object, path: str) -> JsonValue:
    try:
        return freeze(value)
    except InvalidJson as problem:
        raise refuse(path + problem.path, problem.reason) from None


def frozen_object(value: Fields, path: str) -> FrozenDict:
    result = frozen(value, path)
    assert isinstance(result, FrozenDict)  # noqa: S101 - what freeze makes of a dict
    return result
