"""A store confined to one namespace, which the host has authenticated."""

from collections.abc import Sequence

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.base import MemorySearchProvider, MemoryStore, Namespaced, Recalling
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


class ScopedMemory:
    """All operations of ``store`` within ``namespace``; records elsewhere are as if absent."""

    def __init__(self, store: Namespaced, namespace: str) -> None:
        if not namespace:
            raise MemoryError.invalid_input("/namespace", "must not be empty")
        confined = store.within(namespace)
        if not isinstance(confined, MemoryStore):
            raise TypeError("within() must give a MemoryStore")
        self._store: MemoryStore = confined

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> Sequence[MemoryItem]:
        return self._store.get(ids=ids, keys=keys)

    def query(self, query: Query) -> QueryPage:
        return self._store.query(query)

    def search(self, search: Search) -> Sequence[MemorySearchResult]:
        if not isinstance(self._store, MemorySearchProvider):
            raise MemoryError("SEARCH_UNAVAILABLE", "no search is configured for this store")
        return self._store.search(search)

    def write(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation | None = None
    ) -> Sequence[MemoryItem]:
        return self._store.write(drafts, operation=operation)

    def recall(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation
    ) -> Sequence[MemoryItem] | None:
        if not isinstance(self._store, Recalling):
            return None
        return self._store.recall(drafts, operation=operation)

    def update(self, patches: Sequence[MemoryPatch]) -> Sequence[MemoryItem]:
        return self._store.update(patches)

    def delete(self, ids: Sequence[str]) -> Sequence[str]:
        return self._store.delete(ids)
