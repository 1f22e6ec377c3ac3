"""An extension of a worker in tests: searches that embed over HTTP, and one that blocks without a token."""

import threading
from collections.abc import Sequence

from ditto_tasks.extensions import Extension
from ditto_tasks.memory.models import MemorySearchResult, Search
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.retrieval import (
    Branch,
    CosineReranker,
    HybridProvider,
    RerankProvider,
    RetrievalRequest,
    Target,
    TextProvider,
    VectorProvider,
)
from ditto_tasks.retrieval.models import Candidate
from ditto_tasks.retrieval.providers.opening import open_embedding
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client

NAME = "support.searches_extension:searching"
BLOCKED_S = 60.0


class Quick:
    """Finds one candidate at once."""

    def search_text(self, text: str, request: RetrievalRequest) -> Sequence[Candidate]:
        return [Candidate(id="1", content="found")]

    def search_vector(self, vector: Sequence[float], request: RetrievalRequest) -> Sequence[Candidate]:
        return self.search_text("", request)


class Blocked:
    """Says in the broker's database that it is asked, and answers when nobody waits any more."""

    def __init__(self, settings: Settings) -> None:
        url = settings.connections.broker_url
        assert url is not None
        self.client = open_state_client(url.get_secret_value())

    def search_text(self, text: str, request: RetrievalRequest) -> Sequence[Candidate]:
        self.client.set("test:blocked", "1", px=60_000)
        threading.Event().wait(BLOCKED_S)
        return []

    def search(self, search: Search) -> Sequence[MemorySearchResult]:
        self.client.set("test:blocked", "1", px=60_000)
        threading.Event().wait(BLOCKED_S)
        return []


def searching(settings: Settings) -> Extension:
    """The target `slow`, and MEMORY's search."""
    embedding = open_embedding(settings)
    assert embedding is not None
    blocked, quick = Blocked(settings), TextProvider(Quick())
    embedded = VectorProvider(Quick(), embedding)
    providers = {
        "blocked": TextProvider(blocked),
        "hybrid": HybridProvider([Branch("text", quick), Branch("vector", embedded)]),
        "rerank": RerankProvider(quick, CosineReranker(embedding)),
    }
    slow = Target("hybrid", providers)
    store = SqlMemoryStore("sqlite:///memory.db")  # in the worker's own folder
    memory = {"store": store, "search": blocked}
    return Extension(memory=memory, retrieval={"slow": slow}, close=blocked.client.close)
