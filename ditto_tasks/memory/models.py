"""Inputs and outputs of the MEMORY nodes."""

from dataclasses import dataclass, field
from typing import Literal, Self

from pydantic import model_validator

from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import Count, Finite, Json, JsonMap, NonEmptyText, WireModel


class MemoryDraft(WireModel):
    """What a caller asks to be remembered; the store gives it an id."""

    key: NonEmptyText | None = None
    content: Json
    metadata: JsonMap | None = None


class MemoryItem(WireModel):
    """One remembered record."""

    id: NonEmptyText
    key: NonEmptyText | None = None
    content: Json
    metadata: JsonMap | None = None

    def wire_form(self) -> JsonObject:
        """As the general one, and faster: records come in batches."""
        wire: JsonObject = {"id": self.id, "content": self.content}
        if self.key is not None:
            wire["key"] = self.key
        if self.metadata is not None:
            wire["metadata"] = self.metadata
        return wire


class MemorySearchResult(WireModel):
    """A record that a search found; ``score`` is the backend's own, higher is better."""

    memory: MemoryItem
    score: Finite | None = None
    metadata: JsonMap | None = None


class OrderBy(WireModel):
    """One term of a QUERY's order."""

    field: NonEmptyText
    direction: Literal["asc", "desc"] = "asc"


class GetInput(WireModel):
    """Input of MEMORY.GET: at least one selector, which may be empty."""

    ids: tuple[NonEmptyText, ...] | None = None
    keys: tuple[NonEmptyText, ...] | None = None

    @model_validator(mode="after")
    def _some_selector(self) -> Self:
        if self.ids is None and self.keys is None:
            raise ValueError("ids or keys is required")
        return self


class QueryInput(WireModel):
    """Input of MEMORY.QUERY."""

    filter: JsonMap | None = None
    limit: Count | None = None
    cursor: NonEmptyText | None = None
    order_by: tuple[OrderBy, ...] | None = None


class QueryPage(WireModel):
    """Output of MEMORY.QUERY; no cursor means that this is the last page."""

    items: tuple[MemoryItem, ...]
    next_cursor: NonEmptyText | None = None


class SearchInput(WireModel):
    """Input of MEMORY.SEARCH; what a query may be is the strategy's affair."""

    query: Json
    strategy: NonEmptyText | None = None
    filter: JsonMap | None = None
    limit: Count | None = None
    options: JsonMap | None = None


class WriteInput(WireModel):
    """Input of MEMORY.WRITE."""

    memories: tuple[MemoryDraft, ...]


class MemoryPatch(WireModel):
    """New content, new metadata or both for one record; what is absent stays."""

    id: NonEmptyText
    content: Json = None
    metadata: JsonMap | None = None

    @property
    def replaces_content(self) -> bool:
        """Null is content too, so presence decides."""
        return "content" in self.model_fields_set

    @property
    def replaces_metadata(self) -> bool:
        return self.metadata is not None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not (self.replaces_content or self.replaces_metadata):
            raise ValueError("content or metadata is required")
        return self


class UpdateInput(WireModel):
    """Input of MEMORY.UPDATE."""

    memories: tuple[MemoryPatch, ...]

    @model_validator(mode="after")
    def _unique_ids(self) -> Self:
        ids = [patch.id for patch in self.memories]
        if len(ids) != len(set(ids)):
            raise ValueError("an id is given twice")
        return self


class DeleteInput(WireModel):
    """Input of MEMORY.DELETE."""

    ids: tuple[NonEmptyText, ...]


class DeleteOutput(WireModel):
    """Output of MEMORY.DELETE: the ids that this call removed."""

    deleted: tuple[NonEmptyText, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A QUERY as a store sees it: every default filled in."""

    limit: int
    filter: JsonMap | None = None
    cursor: str | None = None
    order_by: tuple[OrderBy, ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """A SEARCH as a provider sees it; without a strategy the provider's default applies."""

    query: Json
    limit: int
    strategy: str | None = None
    filter: JsonMap | None = None
    options: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteOperation:
    """The identity of one WRITE: the same id and input again is a redelivery."""

    id: str
    input_hash: str
