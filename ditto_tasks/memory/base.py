"""Ports of MEMORY: what a store and a search provider must do.

Every record lives in one namespace ("" is the default one) and every call runs in one namespace. A
refusal that a caller can act on is a ``MemoryError`` with one of the codes of the reference; any other
exception is hidden.
"""

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from ditto_tasks.memory.models import (
    MemoryDraft,
    MemoryItem,
    MemoryPatch,
    MemorySearchResult,
    Query,
    QueryPage,
    Search,
    WriteOperation,
)


@runtime_checkable
class MemoryStore(Protocol):
    """Durable records."""

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> Sequence[MemoryItem]:
        """Those that exist, each once: in the order of ``ids``, then of ``keys``."""
        ...

    def query(self, query: Query) -> QueryPage:
        """One page in a total order, the id breaking ties; raises UNSUPPORTED_FILTER, INVALID_INPUT."""
        ...

    def write(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation | None
    ) -> Sequence[MemoryItem]:
        """Atomic: all drafts or none; idempotent by key and by operation; raises CONFLICT."""
        ...

    def update(self, patches: Sequence[MemoryPatch]) -> Sequence[MemoryItem]:
        """Atomic: all patches or, with NOT_FOUND, none; answers the new records in the given order."""
        ...

    def delete(self, ids: Sequence[str]) -> Sequence[str]:
        """Atomic: removes those that exist and answers their ids, each once, in the order of ``ids``."""
        ...


@runtime_checkable
class Recalling(Protocol):
    """A store that knows which writes it has made."""

    def recall(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation
    ) -> Sequence[MemoryItem] | None:
        """What ``write`` answered to this operation, or None if it was not committed; raises CONFLICT."""
        ...


@runtime_checkable
class MemorySearchProvider(Protocol):
    """Search over records; may be the store itself."""

    def search(self, search: Search) -> Sequence[MemorySearchResult]:
        """At most ``search.limit`` results, best first; raises UNSUPPORTED_STRATEGY, UNSUPPORTED_FILTER."""
        ...


@runtime_checkable
class Namespaced(Protocol):
    """A store whose records can be confined to one namespace."""

    def within(self, namespace: str) -> Self:
        """The same store, every operation of which sees records of ``namespace`` only."""
        ...
