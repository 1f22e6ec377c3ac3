"""Canonical JSON as the reference runtime writes it, and the ids that are hashes of it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, cast

from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import (
    EXACT_INTEGER,
    MESSAGE_DEPTH,
    FrozenDict,
    FrozenList,
    InvalidJson,
    JsonObject,
    JsonValue,
    WireForm,
    fast_encode,
    freeze,
    is_exact,
    pointer,
)

_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
SCOPE_KEYS: Final = ("sessionId", "turnId", "invocationId")  # in the order in which they are hashed


def canonical_json(value: object) -> str:
    """Keys sorted by UTF-16 code units, numbers as ECMAScript writes them, no spaces.

    Takes JSON or a model; ContextError INVALID_INPUT names the path of what is not JSON.
    """
    try:
        frozen = freeze(_wire(value))
    except InvalidJson as problem:
        raise ContextError.invalid_input(problem.path, problem.reason) from None
    return canonical_text(frozen)


def _wire(value: object) -> object:
    """A model's JSON form. `isinstance` with WireForm says the same, and takes as long as the whole rest."""
    return cast("WireForm", value).wire_form() if hasattr(type(value), "wire_form") else value


def canonical_text(value: JsonValue) -> str:
    """`canonical_json` of a value that is known to be JSON."""
    if isinstance(value, (FrozenDict, FrozenList)) and value.exact_numbers:
        written = fast_encode(value, sort_keys=True)
        if written is not None and _sorts_alike(text := written.decode("utf-8")):
            return text
    return escape_lone_surrogates(_render(value))


def _sorts_alike(text: str) -> bool:
    """Whether code points sort as code units do: they do where no character takes two units."""
    return text.isascii() or len(text.encode("utf-16-le")) == 2 * len(text)


def canonical_size(value: JsonValue) -> int:
    """Bytes of the canonical form, which are those of any JSON.stringify of the value."""
    written = fast_encode(value)
    if written is None:
        return len(canonical_text(value).encode("utf-8"))
    return len(written) + _size_difference(value)


def _size_difference(value: JsonValue) -> int:
    """By how many bytes ECMAScript's numbers are longer than orjson's; containers must be frozen."""
    if isinstance(value, (FrozenDict, FrozenList)):
        if value.exact_numbers:
            return 0
        return sum(map(_size_difference, value.values() if isinstance(value, FrozenDict) else value))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or is_exact(value):
        return 0
    return len(number_text(value)) - len(fast_encode(value) or b"")


def stable_id(prefix: str, value: object) -> str:
    """`prefix:` and the SHA-256 of the canonical form, in lower-case hex."""
    return _hashed(prefix, canonical_json(value))


def hash_id(prefix: str, value: JsonValue) -> str:
    """`stable_id` of a value that is known to be JSON."""
    return _hashed(prefix, canonical_text(freeze(value, max_depth=MESSAGE_DEPTH)))


def _hashed(prefix: str, text: str) -> str:
    return f"{prefix}:{hashlib.sha256(text.encode('utf-8')).hexdigest()}"


def scope_key(scope: object) -> str:
    """`scope:<hex>` of a Scope or of its wire form; each set of ids given has a key of its own.

    ContextError INVALID_INPUT if it is no scope.
    """
    ids = check_scope(_wire(scope))
    return _scope_key(*map(ids.get, SCOPE_KEYS))


@lru_cache(maxsize=4_096)  # a call needs it at every step of its way
def _scope_key(*ids: str | None) -> str:
    return stable_id("scope", [*ids])


def check_scope(scope: object) -> dict[str, str]:
    """The ids of a wire scope: at least one, each a nonempty string, no other key."""
    if not isinstance(scope, dict) or not scope:
        raise ContextError.invalid_input("/scope", "must be an object with at least one id")
    for key, value in scope.items():
        if key not in SCOPE_KEYS:
            raise ContextError.invalid_input("/scope", f"may have {', '.join(SCOPE_KEYS)} only")
        if not isinstance(value, str) or not value:
            raise ContextError.invalid_input("/scope" + pointer(key), "must be a nonempty string")
    return scope


def number_text(value: float) -> str:
    """A finite number as ECMAScript's Number-to-string writes it (integers are rounded to double)."""
    if isinstance(value, int) and -EXACT_INTEGER <= value <= EXACT_INTEGER:
        return str(value)
    mantissa, _, exponent = repr(float(value)).partition("e")
    if not exponent:
        return "0" if value == 0 else mantissa.removesuffix(".0")
    return _exponent_form(mantissa, int(exponent))


def _exponent_form(mantissa: str, exponent: int) -> str:
    """Python writes an exponent from 1e16 and below 1e-4; ECMAScript from 1e21 and below 1e-6."""
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    if 0 < exponent < 21:
        return sign + digits.ljust(exponent + 1, "0")
    if -7 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{mantissa}e{exponent:+d}"


def escape_lone_surrogates(text: str) -> str:
    """Pairs joined and lone ones written as escapes, as a well-formed JSON.stringify does."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def _render(value: JsonValue) -> str:
    """Containers call this directly, so that 200 levels are 200 frames."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        members = []
        for key in _in_order(value):
            members.append(f"{encode_basestring(key)}:{_render(value[key])}")  # noqa: PERF401 - adds a frame
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_render, value))}]"
    if value is None or isinstance(value, bool):
        return _CONSTANTS[value]
    return number_text(value)


def _in_order(value: JsonObject) -> list[str]:
    """Keys by UTF-16 code units; by code points is the same for ASCII."""
    return sorted(value, key=None if "".join(value).isascii() else _code_units)


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
