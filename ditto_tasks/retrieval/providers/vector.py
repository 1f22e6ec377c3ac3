"""Search by vector: the query's own, an embedded one, or the backend's native embedding."""

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.retrieval.answers import as_vector, checked_candidates, checked_vectors
from ditto_tasks.retrieval.base import EmbeddingProvider, NativeVectorBackend, VectorBackend
from ditto_tasks.retrieval.models import Found, RetrievalRequest


class VectorProvider:
    """A numeric query goes straight in; other content is embedded, by exactly one of the two ways."""

    def __init__(self, backend: VectorBackend, embedding: EmbeddingProvider) -> None:
        self._backend = backend
        self._embedding = embedding

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        content = request.query.content
        vector = as_vector(content)
        if vector is None:
            (vector,) = checked_vectors(self._embedding.embed([content], token), 1)
            token.raise_if_cancelled()
        return Found(checked_candidates(self._backend.search_vector(vector, request), request.limit))


class NativeVectorProvider:
    """A numeric query goes straight in; other content the backend embeds itself."""

    def __init__(self, backend: NativeVectorBackend) -> None:
        self._backend = backend

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        content = request.query.content
        vector = as_vector(content)
        if vector is not None:
            found = self._backend.search_vector(vector, request)
        else:
            found = self._backend.search_content(content, request)
        return Found(checked_candidates(found, request.limit))
