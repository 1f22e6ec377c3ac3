"""MEMORY: durable records that can be found again."""

from ditto_tasks.memory.base import MemorySearchProvider, MemoryStore, Namespaced
from ditto_tasks.memory.models import MemoryDraft, MemoryItem, MemoryPatch, MemorySearchResult
from ditto_tasks.memory.nodes import MemoryNodes
from ditto_tasks.memory.scoped import ScopedMemory

__all__ = [
    "MemoryDraft",
    "MemoryItem",
    "MemoryNodes",
    "MemoryPatch",
    "MemorySearchProvider",
    "MemorySearchResult",
    "MemoryStore",
    "Namespaced",
    "ScopedMemory",
]
