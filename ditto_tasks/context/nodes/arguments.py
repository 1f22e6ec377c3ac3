"""The nodes' inputs as keyword arguments: snake_case outside, wire form within."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from pydantic.alias_generators import to_camel

from ditto_tasks.context.checks import Fields
from ditto_tasks.context.inputs import SelectStrategy
from ditto_tasks.context.models import Context, ContextItem, IngressEntry, Purpose, Source
from ditto_tasks.context.nodes.dispatch import input_fields
from ditto_tasks.models import Json, Scope

Wire: TypeAlias = Mapping[str, Any]


class _Scoped(TypedDict, total=False):
    scope: Scope | Wire
    expected_version: str


class LoadArguments(_Scoped, total=False):
    sources: Sequence[Source | Wire]
    resolve_references: bool


class SelectArguments(_Scoped, total=False):
    context: Context | Wire
    purpose: Purpose
    query: Json
    limit: int
    max_tokens: int
    strategy: SelectStrategy | Wire


class UpdateArguments(_Scoped, total=False):
    context: Context | Wire
    add: Sequence[ContextItem | Wire]
    ingress: Sequence[IngressEntry | Wire]
    remove_ids: Sequence[str]


class CompressArguments(_Scoped, total=False):
    context: Context | Wire
    max_tokens: int
    max_items: int
    strategy: SelectStrategy | Wire


def merged(value: object, arguments: Mapping[str, object]) -> object:
    """The input with the keyword arguments in it; without an input they are all of it."""
    if not arguments:
        return {} if value is None else value
    fields: Fields = {} if value is None else dict(input_fields(value))
    return fields | {to_camel(name): each for name, each in arguments.items()}
