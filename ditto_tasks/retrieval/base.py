"""Ports of RETRIEVAL.

A refusal that a caller can act on is a ``RetrievalError`` with one of the codes of the reference.
TimeoutError and PermissionError have codes of their own; any other exception is hidden.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.retrieval.models import Candidate, Found, Reranked, RetrievalRequest

Vector = Sequence[float]


@runtime_checkable
class RetrievalProvider(Protocol):
    """One strategy of one target."""

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        """At most ``request.limit`` candidates, best first; stops once ``token`` is cancelled."""
        ...


class TextBackend(Protocol):
    """A search by text."""

    def search_text(self, text: str, request: RetrievalRequest) -> Sequence[Candidate]:
        """At most ``request.limit`` candidates, best first; ``text`` is never empty."""
        ...


class VectorBackend(Protocol):
    """A search by vector."""

    def search_vector(self, vector: Vector, request: RetrievalRequest) -> Sequence[Candidate]:
        """At most ``request.limit`` candidates, nearest first."""
        ...


class NativeVectorBackend(VectorBackend, Protocol):
    """A search by vector that can embed a query itself."""

    def search_content(self, content: JsonValue, request: RetrievalRequest) -> Sequence[Candidate]:
        """As ``search_vector``, with the vector of ``content`` by the backend's own model."""
        ...


class EmbeddingProvider(Protocol):
    """Contents as vectors."""

    def embed(self, contents: Sequence[JsonValue], token: CancelToken) -> Sequence[Vector]:
        """One vector a content, in order, all of the same dimensions; raises RETRIEVAL_INVALID_EMBEDDING."""
        ...


class Reranker(Protocol):
    """A second look at candidates."""

    def rerank(
        self, request: RetrievalRequest, candidates: Sequence[Candidate], token: CancelToken
    ) -> Sequence[Reranked]:
        """The best ones first: each index at most once, and within ``candidates``."""
        ...
