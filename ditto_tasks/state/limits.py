"""Checks of what a store or queue is configured and called with; all INVALID_INPUT."""

from typing import Final

from ditto_tasks.context.checks import SAFE_INTEGER, safe_integer
from ditto_tasks.errors import ContextError

MAX_TTL_MS: Final = 2**31 - 1
MAX_OPERATION_IDS: Final = 10_000


def check_ttl_ms(value: object) -> int:
    """A time to live in whole milliseconds, at most what a JavaScript timer takes."""
    return _whole(value, "ttlMs", MAX_TTL_MS)


def check_positive(value: object, name: str) -> int:
    """A whole number from 1 up to what JavaScript holds exactly."""
    return _whole(value, name, SAFE_INTEGER)


def check_operation_ids(value: object) -> int:
    """How many operations of a scope are known: what a script may look through without holding others up."""
    return _whole(value, "operationIds", MAX_OPERATION_IDS)


def check_key_prefix(value: object) -> str:
    """A prefix of keys; braces are refused as they would move keys of one scope to different slots."""
    if not isinstance(value, str) or not value or "{" in value or "}" in value:
        raise ContextError.invalid_input("/keyPrefix", "must be a nonempty string without braces")
    return value


def check_expected_version(value: object) -> None:
    """None (nothing is stored) or a nonempty string."""
    if value is not None and (not isinstance(value, str) or not value):
        raise ContextError.invalid_input("/expectedVersion", "must be a nonempty string")


def _whole(value: object, name: str, highest: int) -> int:
    number = safe_integer(value)
    if number is None or not 1 <= number <= highest:
        raise ContextError.invalid_input(f"/{name}", f"must be a whole number from 1 to {highest}")
    return number
