"""Items, contexts and selections: the values that CONTEXT nodes take and return."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, Literal, Self, TypeAlias, get_args

from pydantic import ConfigDict

from ditto_tasks.canonical import canonical_size
from ditto_tasks.context.checks import (
    Fields,
    an_array,
    an_object,
    content,
    frozen_object,
    nonempty,
    optional_nonempty,
    optional_object,
    refuse,
)
from ditto_tasks.context.values import ContextValue, extra_fields, given
from ditto_tasks.json_values import FrozenDict, pointer
from ditto_tasks.models import Json, JsonMap

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Purpose: TypeAlias = Literal["infer", "memory"]

ROLES: Final = get_args(Role)
PURPOSES: Final = get_args(Purpose)
# ECMAScript's \s; Python's own lacks U+FEFF and has U+001C-001F and U+0085
_SPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_NODE_NAME: Final = re.compile(rf"[^.{_SPACE}]+(?:\.[^.{_SPACE}]+)+")


def _extra(fields: Fields, known: frozenset[str], path: str) -> FrozenDict | None:
    """The fields that are kept although no check knows them."""
    if fields.keys() <= known:
        return None
    return frozen_object(extra_fields(fields, known), path)


class ContextReference(ContextValue):
    """Where something is that the context does not hold inline; extra fields are kept and hashed."""

    uri: str
    media_type: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values = given(
            uri=nonempty(fields, "uri", path),
            media_type=optional_nonempty(fields, "mediaType", path),
            digest=optional_nonempty(fields, "digest", path),
        )
        return cls.assemble(values, _extra(fields, _REFERENCE_KEYS, path))


class ContextItem(ContextValue):
    """One piece of a context: an id, any JSON as content. Extra fields are kept as they are.

    `metadata` decides how it is scored, protected and grouped; docs/tasks.md lists the keys.
    """

    id: str
    content: Json
    source: ContextReference | None = None
    metadata: JsonMap | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values: dict[str, object] = {
            "id": nonempty(fields, "id", path),
            "content": content(fields, "content", path),
        }
        if "source" in fields:
            values["source"] = ContextReference.parse(fields["source"], path + "/source")
        if "metadata" in fields:
            values["metadata"] = optional_object(fields, "metadata", path)
        return cls.assemble(values, _extra(fields, _ITEM_KEYS, path))

    @cached_property
    def inline_bytes(self) -> int:
        """Bytes of the content as JSON; the content cannot change, so it is counted once."""
        return canonical_size(self.content)


class ContextMessage(ContextValue):
    """A message of a conversation, for LOAD; `role` is one of ROLES.

    Every field, extra ones too, goes into its item's id: equal messages have the same one.
    """

    role: Role
    content: Json
    name: str | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        role = fields.get("role")
        if not isinstance(role, str) or role not in ROLES:
            raise refuse(path + "/role", f"must be one of {', '.join(ROLES)}")
        body = content(fields, "content", path)
        values = given(role=role, name=optional_nonempty(fields, "name", path))
        return cls.assemble({**values, "content": body}, _extra(fields, _MESSAGE_KEYS, path))


Source: TypeAlias = ContextItem | ContextMessage | ContextReference


class Context(ContextValue):
    """The working set of a scope: items in order, each id once."""

    model_config = ConfigDict(extra="ignore")

    items: tuple[ContextItem, ...]

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        items = parse_items(fields.get("items"), path + "/items")
        seen: set[str] = set()
        for index, item in enumerate(items):
            if item.id in seen:
                raise refuse(f"{path}/items/{index}/id", "is the id of an earlier item")
            seen.add(item.id)
        return cls.assemble({"items": items})


class IngressEntry(ContextValue):
    """What another node hands to UPDATE; `source_node` is that node's type."""

    model_config = ConfigDict(extra="ignore")

    id: str
    source_node: str
    content: Json
    reference: ContextReference | None = None
    metadata: JsonMap | None = None

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        values: dict[str, object] = {
            "id": nonempty(fields, "id", path),
            "source_node": _node_name(fields, path),
        }
        values["content"] = content(fields, "content", path)
        if "reference" in fields:
            values["reference"] = ContextReference.parse(fields["reference"], path + "/reference")
        if "metadata" in fields:
            values["metadata"] = optional_object(fields, "metadata", path)
        return cls.assemble(values)


class ContextSelection(ContextValue):
    """What SELECT chose: the items as a context, and their ids, both best first."""

    model_config = ConfigDict(extra="ignore")

    purpose: Purpose
    context: Context
    selected_item_ids: tuple[str, ...]

    @classmethod
    def parse(cls, value: object, path: str = "") -> Self:
        if isinstance(value, cls):
            return value
        fields = an_object(value, path)
        ids = an_array(fields.get("selectedItemIds"), path + "/selectedItemIds")
        chosen: dict[str, object] = {
            "purpose": parse_purpose(fields, path),
            "context": Context.parse(fields.get("context"), path + "/context"),
            "selected_item_ids": parse_ids(ids, path + "/selectedItemIds"),
        }
        return cls.assemble(chosen)


_REFERENCE_KEYS: Final = frozenset({"uri", "mediaType", "digest"})
_ITEM_KEYS: Final = frozenset({"id", "content", "source", "metadata"})
_MESSAGE_KEYS: Final = frozenset({"role", "content", "name"})


def parse_context(wire: object, path: str = "") -> Context:
    """A context from its wire form, or ContextError INVALID_INPUT."""
    return Context.parse(wire, path)


def parse_items(value: object, path: str) -> tuple[ContextItem, ...]:
    entries = an_array(value, path)
    return tuple(
        entry if type(entry) is ContextItem else ContextItem.parse(entry, f"{path}/{index}")
        for index, entry in enumerate(entries)
    )


def parse_source(value: object, path: str) -> Source:
    """Which kind a source of LOAD is depends on the keys that it has, whatever they hold."""
    if isinstance(value, (ContextItem, ContextMessage, ContextReference)):
        return value
    fields = an_object(value, path)
    if "id" in fields:
        return ContextItem.parse(fields, path)
    if "role" in fields:
        return ContextMessage.parse(fields, path)
    return ContextReference.parse(fields, path)


def _node_name(fields: Fields, path: str) -> str:
    name = nonempty(fields, "sourceNode", path)
    if not _NODE_NAME.fullmatch(name):
        raise refuse(path + "/sourceNode", "must be a dotted node type")
    return name


def parse_ids(value: object, path: str) -> tuple[str, ...]:
    ids = an_array(value, path)
    for index, each in enumerate(ids):
        if not isinstance(each, str) or not each:
            raise refuse(path + pointer(index), "must be a nonempty string")
    return tuple(str(each) for each in ids)


def parse_purpose(fields: Fields, path: str = "") -> str:
    purpose = fields.get("purpose")
    if not isinstance(purpose, str) or purpose not in PURPOSES:
        raise refuse(path + "/purpose", f"must be one of {', '.join(PURPOSES)}")
    return purpose
