"""The JSON domain: what counts as content, its frozen form, and its bytes.

A frozen value equals the plain one, raises TypeError on any change, and was checked once: `freeze`
gives it back as it is, so that values pass from node to node without being copied or read again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Protocol, runtime_checkable

import orjson

from ditto_tasks.frozen_json import FrozenDict, FrozenList, JsonObject, JsonScalar, JsonValue

__all__ = [
    "EXACT_INTEGER",
    "MAX_DEPTH",
    "MESSAGE_DEPTH",
    "TOO_DEEP",
    "FrozenDict",
    "FrozenList",
    "InvalidJson",
    "JsonObject",
    "JsonScalar",
    "JsonValue",
    "WireForm",
    "decode",
    "encode",
    "fast_decode",
    "fast_encode",
    "freeze",
    "is_exact",
    "pointer",
    "text_or_json",
]

MAX_DEPTH: Final = 200  # levels; a scalar is 0, [] is 1. Far below where any decoder gives up.
TOO_DEEP: Final = "nested too deeply"
MESSAGE_DEPTH: Final = 256  # levels of a whole message: content plus what wraps it
EXACT_INTEGER: Final = 2**53  # up to here an integer is its own double
_WORD: Final = 2**63


@runtime_checkable
class WireForm(Protocol):
    """A value that knows its JSON form: the frozen models."""

    def wire_form(self) -> JsonObject:
        """The JSON object that stands for this value on the wire."""


class InvalidJson(ValueError):  # noqa: N818 - states what is wrong
    """A value outside the JSON domain; `path` is a JSON pointer to it."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path or 'value'}: {self.reason}"

    def within(self, key: str | int) -> InvalidJson:
        """The same problem seen from the container that holds it under `key`."""
        self.path = pointer(key) + self.path
        self.args = (self.path, self.reason)
        return self


def pointer(*keys: str | int) -> str:
    """A JSON pointer (RFC 6901); lone surrogates are written as escapes, so that it can be printed."""
    return "".join(f"/{_pointer_token(str(key))}" for key in keys)


def _pointer_token(key: str) -> str:
    escaped = key.replace("~", "~0").replace("/", "~1")
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def freeze(value: object, *, path: str = "", max_depth: int = MAX_DEPTH) -> JsonValue:
    """The frozen copy of `value`, or InvalidJson with the path of what is not JSON.

    A cycle is refused as nested too deeply. Tuples are refused: they would not come back equal.
    """
    try:
        return _freezer(value)(value, max_depth)
    except InvalidJson as problem:
        raise InvalidJson(path + problem.path, problem.reason) from None


def _freezer(value: object) -> Callable[[Any, int], JsonValue]:
    """Which of the functions below freezes this; they call each other directly, one frame a level."""
    return _FREEZERS.get(type(value), _freeze_subclass)


def _freeze_scalar(value: JsonScalar, _levels: int) -> JsonScalar:
    return value


def _freeze_int(value: int, _levels: int) -> int:
    if not -_WORD <= value < _WORD:
        try:
            float(value)
        except OverflowError:
            raise InvalidJson("", "not a finite number") from None
    return value


def _freeze_float(value: float, _levels: int) -> float:
    if value - value != 0.0:  # true of NaN and both infinities only
        raise InvalidJson("", "not a finite number")
    return value


def _freeze_dict(value: dict[object, object], levels: int) -> FrozenDict:
    if not levels:
        raise InvalidJson("", TOO_DEEP)
    frozen: dict[str, JsonValue] = {}
    nested: list[JsonValue] = []
    for key, child in value.items():
        if type(key) is not str:
            key = _plain_key(key)
        if type(child) is str:
            frozen[key] = child
            continue
        try:
            frozen[key] = item = _freezer(child)(child, levels - 1)
        except InvalidJson as problem:
            raise problem.within(key) from None
        nested.append(item)
    result = FrozenDict(frozen)
    result.depth, result.exact_numbers = _summary(nested)
    return result


def _freeze_list(value: list[object], levels: int) -> FrozenList:
    if not levels:
        raise InvalidJson("", TOO_DEEP)
    frozen: list[JsonValue] = []
    for index, child in enumerate(value):
        try:
            frozen.append(_freezer(child)(child, levels - 1))
        except InvalidJson as problem:
            raise problem.within(index) from None
    result = FrozenList(frozen)
    result.depth, result.exact_numbers = _summary(frozen)
    return result


def _summary(children: list[JsonValue]) -> tuple[int, bool]:
    """Depth and exactness of a container of these."""
    deepest, exact = 0, True
    for child in children:
        if isinstance(child, (FrozenDict, FrozenList)):
            deepest = max(deepest, child.depth)
            exact = exact and child.exact_numbers
        elif exact and isinstance(child, (int, float)):
            exact = is_exact(child)
    return deepest + 1, exact


def is_exact(value: float) -> bool:
    """Whether orjson writes the number as ECMAScript does: not for 1.0, nor for very large or small ones."""
    if isinstance(value, int):
        return -EXACT_INTEGER <= value <= EXACT_INTEGER
    return 1e-4 <= abs(value) < 1e16 and not value.is_integer()


def _freeze_frozen_dict(value: FrozenDict, levels: int) -> FrozenDict:
    if getattr(value, "depth", levels + 1) <= levels:
        return value
    return _freeze_dict(value, levels)  # type: ignore[arg-type]  # dict is invariant


def _freeze_frozen_list(value: FrozenList, levels: int) -> FrozenList:
    if getattr(value, "depth", levels + 1) <= levels:
        return value
    return _freeze_list(value, levels)  # type: ignore[arg-type]  # list is invariant


def _freeze_subclass(value: object, levels: int) -> JsonValue:
    """Subclasses of the JSON types (enums, ordered dicts) are taken as what they extend."""
    match value:
        case str():
            return str.__str__(value)
        case int():
            return _freeze_int(int.__int__(value), levels)
        case float():
            return _freeze_float(float.__float__(value), levels)
        case dict():
            return _freeze_dict(value, levels)
        case list():
            return _freeze_list(value, levels)
    raise InvalidJson("", f"{type(value).__name__} is not JSON")


def _plain_key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    raise InvalidJson("", f"a key is {type(key).__name__}, not a string")


_FREEZERS: Final[dict[type, Callable[[Any, int], JsonValue]]] = {
    str: _freeze_scalar,
    bool: _freeze_scalar,
    type(None): _freeze_scalar,
    int: _freeze_int,
    float: _freeze_float,
    FrozenDict: _freeze_frozen_dict,
    FrozenList: _freeze_frozen_list,
    dict: _freeze_dict,
    list: _freeze_list,
}


def encode(value: object, *, max_depth: int = MESSAGE_DEPTH) -> bytes:
    r"""Compact UTF-8 JSON: text raw, lone surrogates as `\udXXX`, integers with all their digits.

    The domain is checked first (cheap for frozen values): orjson would turn NaN into null.
    """
    frozen = freeze(value, max_depth=max_depth)
    written = fast_encode(frozen)
    if written is not None:
        return written
    text = json.dumps(frozen, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")  # only lone surrogates are replaced


def text_or_json(content: JsonValue) -> str:
    """A string as it is, anything else as its JSON."""
    return content if isinstance(content, str) else encode(content).decode("utf-8")


def fast_encode(value: JsonValue, *, sort_keys: bool = False) -> bytes | None:
    """What orjson makes of a frozen value; None for a lone surrogate, over 64 bits, or over 254 levels.

    Sorted keys are in the order of their code points.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else 0)
    except orjson.JSONEncodeError:
        return None


def fast_decode(data: bytes | str) -> JsonValue:
    """What `fast_encode` wrote, read back; of other JSON it would round integers over 64 bits."""
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise InvalidJson("", "not JSON") from None
    return value


def decode(data: bytes | str, *, max_depth: int = MESSAGE_DEPTH) -> JsonValue:
    """The plain value that `data` (UTF-8 JSON) holds; InvalidJson for anything else.

    Python's own decoder, since orjson rounds integers over 64 bits and refuses lone surrogates.
    A number too large for a double comes back as it is: `freeze` names its path.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value: JsonValue = _DECODER.decode(text)
    except RecursionError:
        raise InvalidJson("", TOO_DEEP) from None
    except ValueError as problem:
        reason = problem.reason if isinstance(problem, InvalidJson) else "not JSON"
        raise InvalidJson("", reason) from None
    if _deeper_than(value, max_depth):
        raise InvalidJson("", TOO_DEEP)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson("", f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # json.loads would make one a call


def _deeper_than(value: JsonValue, levels: int) -> bool:
    layer = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        if not layer:
            return False
        layer = [child for parent in layer for child in _children(parent) if isinstance(child, (dict, list))]
    return bool(layer)


def _children(parent: JsonValue) -> Iterable[JsonValue]:
    match parent:
        case dict():
            return parent.values()
        case list():
            return parent
    return ()
