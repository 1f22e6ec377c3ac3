"""The ceilings and choices that a ContextNodes object works under."""

from __future__ import annotations

from typing import Final, Literal, Self, TypeAlias, get_args

from pydantic import ConfigDict

from ditto_tasks.context.checks import Fields, an_object, count, refuse
from ditto_tasks.context.values import ContextValue

DuplicatePolicy: TypeAlias = Literal["replace", "keep-first", "reject"]
MissingRemovalPolicy: TypeAlias = Literal["ignore", "reject"]

MAX_INLINE_BYTES: Final = 65_536
MAX_ITEMS: Final = 256


class ContextPolicy(ContextValue):
    """Ceilings that a request can only tighten, and what to do about duplicate and missing ids.

    `max_inline_bytes` is of one item's content as canonical JSON. Sizes are whole numbers from 1 to
    1,000,000; without `max_tokens` there is no token ceiling. `duplicate` is replace, keep-first or reject,
    `missing_removal` ignore or reject.
    """

    model_config = ConfigDict(extra="ignore")

    max_inline_bytes: int = MAX_INLINE_BYTES
    max_items: int = MAX_ITEMS
    max_tokens: int | None = None
    duplicate: DuplicatePolicy = "replace"
    missing_removal: MissingRemovalPolicy = "ignore"

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        """A policy from its wire form: null means the default (but not for maxTokens), unknown keys go."""
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        given = {key: each for key, each in fields.items() if each is not None or key == "maxTokens"}
        settings: dict[str, object] = {
            "max_inline_bytes": count(given, "maxInlineBytes", path, low=1),
            "max_items": count(given, "maxItems", path, low=1),
            "max_tokens": count(given, "maxTokens", path, low=1),
            "duplicate": _choice(given, "duplicate", path, get_args(DuplicatePolicy)),
            "missing_removal": _choice(given, "missingRemoval", path, get_args(MissingRemovalPolicy)),
        }
        return cls.assemble({name: setting for name, setting in settings.items() if setting is not None})


def _choice(fields: Fields, key: str, path: str, choices: tuple[str, ...]) -> str | None:
    if key not in fields:
        return None
    value = fields[key]
    if not isinstance(value, str) or value not in choices:
        raise refuse(f"{path}/{key}", f"must be one of {', '.join(choices)}")
    return value
