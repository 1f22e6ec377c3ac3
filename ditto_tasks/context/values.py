"""What the CONTEXT models have in common: they are made by their own exact checks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict

from ditto_tasks.context.checks import Fields
from ditto_tasks.models import WireModel, fill


class ContextValue(WireModel):
    """A frozen value whose only way in is `parse`, so that its instances never need a second check.

    Constructing one by keyword, validating one with pydantic and parsing the wire form all end there;
    each raises ContextError INVALID_INPUT.
    """

    model_config = ConfigDict(extra="allow")

    if not TYPE_CHECKING:  # the declared fields are the signature that type checkers should see

        def __init__(self, /, **fields):
            parsed = type(self).parse(_by_key(type(self), fields))
            fill(self, parsed.__dict__, parsed.__pydantic_fields_set__, parsed.__pydantic_extra__)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, checked as every instance is; nothing frozen is copied."""
        del deep
        return self.parse({**self.wire_form(), **_by_key(type(self), dict(update or {}))})

    @classmethod
    @abstractmethod
    def parse(cls, value: object, path: str = "") -> Self:
        """The value of this wire form (or an instance, given back as it is); `path` is for errors."""


def given(**values: object) -> dict[str, object]:
    """Only what is present: None stands for an absent optional field."""
    return {name: value for name, value in values.items() if value is not None}


def extra_fields(fields: Fields, known: frozenset[str]) -> Fields:
    return {key: value for key, value in fields.items() if key not in known}


@cache
def _keys(model: type[BaseModel]) -> dict[str, str]:
    return {name: field.alias or name for name, field in model.model_fields.items()}


def _by_key(model: type[BaseModel], fields: Fields) -> Fields:
    keys = _keys(model)
    return {keys.get(name, name): value for name, value in fields.items()}
