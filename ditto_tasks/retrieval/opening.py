"""Opening RETRIEVAL from settings and what extensions gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ditto_tasks.memory.base import MemorySearchProvider
from ditto_tasks.memory.opening import memory_is_configured, open_store
from ditto_tasks.retrieval.bridges import MemoryRetrieval
from ditto_tasks.retrieval.nodes import RetrievalNodes
from ditto_tasks.retrieval.providers.http_embedding import HttpEmbedding
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
    """A memory store's text searches as a target."""
    searches = {name: MemoryRetrieval(store, strategy=name) for name in ("keyword", "substring")}
    return Target("keyword", searches)


def open_embedding(settings: Settings) -> HttpEmbedding | None:
    """The embedding service that the environment names; None if it names none."""
    found, tuning = settings.connections, settings.retrieval.embedding
    if found.embedding_base_url is None or found.embedding_model is None:
        return None
    key = found.embedding_api_key
    return HttpEmbedding(
        found.embedding_base_url.get_secret_value(),
        model=found.embedding_model,
        api_key=None if key is None else key.get_secret_value(),
        dimensions=tuning.dimensions,
        batch_size=tuning.batch_size,
        timeout_ms=settings.runtime.timeout_ms,
    )


def _target(name: str, service: object) -> Target:
    if not isinstance(service, Target):
        raise TypeError(f"the RETRIEVAL service {name!r} is not a Target")
    return service
