"""JSON types, and the two containers that cannot change."""

from __future__ import annotations

from typing import NoReturn, TypeAlias

JsonScalar: TypeAlias = bool | int | float | str | None
JsonValue: TypeAlias = JsonScalar | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject: TypeAlias = dict[str, JsonValue]


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is frozen")


class FrozenDict(dict[str, JsonValue]):
    """A JSON object that cannot change.

    `depth` and `exact_numbers` are set by `freeze` only, and mark the value as checked. The second says
    that orjson writes all numbers within as ECMAScript does.
    """

    __slots__ = ("depth", "exact_numbers")
    depth: int
    exact_numbers: bool

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, JsonValue]]]:
        return FrozenDict, (dict(self),)


class FrozenList(list[JsonValue]):
    """A JSON array that cannot change; `depth` and `exact_numbers` are as in FrozenDict."""

    __slots__ = ("depth", "exact_numbers")
    depth: int
    exact_numbers: bool

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = _refuse
    clear = sort = reverse = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[JsonValue]]]:
        return FrozenList, (list(self),)
