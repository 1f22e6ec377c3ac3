"""Opening RETRIEVAL from settings and what extensions gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ditto_tasks.memory.base import MemorySearchProvider
from ditto_tasks.memory.opening import memory_is_configured, open_store
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.retrieval.bridges import MemoryRetrieval
from ditto_tasks.retrieval.nodes import RetrievalNodes
from ditto_tasks.retrieval.registry import Target, TargetRegistry

if TYPE_CHECKING:
    from ditto_tasks.settings import Settings

MEMORY_TARGET: Final = "memory"


def open_retrieval(settings: Settings, services: Mapping[str, object]) -> RetrievalNodes:
    """The RETRIEVAL nodes. Every service is a `Target` under its name; "memory" is the worker's own memory,
    where one is configured and no service has the name.
    """
    targets = {name: _target(name, service) for name, service in services.items()}
    if MEMORY_TARGET not in targets and memory_is_configured(settings):
        targets[MEMORY_TARGET] = memory_target(open_store(settings))
    limits = settings.retrieval
    return RetrievalNodes(
        TargetRegistry(targets), search_limit=limits.search_limit, concurrency=limits.concurrency
    )


def memory_target(store: MemorySearchProvider) -> Target:
    """A memory store's searches as a target."""
    names = store.strategies if isinstance(store, SqlMemoryStore) else ("vector",)
    return Target(names[0], {name: MemoryRetrieval(store, strategy=name) for name in names})


def _target(name: str, service: object) -> Target:
    if not isinstance(service, Target):
        raise TypeError(f"the RETRIEVAL service {name!r} is not a Target")
    return service
