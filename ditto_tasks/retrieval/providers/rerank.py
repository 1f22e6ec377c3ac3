"""A wide search, put in a better order by a reranker."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import mul
from typing import Final

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.retrieval.answers import checked_found, checked_reranking, checked_vectors
from ditto_tasks.retrieval.base import EmbeddingProvider, Reranker, RetrievalProvider, Vector
from ditto_tasks.retrieval.models import Candidate, Found, Reranked, RetrievalRequest

CANDIDATE_LIMIT: Final = 100


class RerankProvider:
    """Asks for at least ``candidate_limit`` candidates and keeps the best of the reranker's order."""

    def __init__(
        self, provider: RetrievalProvider, reranker: Reranker, *, candidate_limit: int = CANDIDATE_LIMIT
    ) -> None:
        self._provider = provider
        self._reranker = reranker
        self._candidate_limit = candidate_limit

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        pool = replace(request, limit=max(request.limit, self._candidate_limit))
        found = checked_found(self._provider.search(pool, token), pool.limit)
        token.raise_if_cancelled()
        if not found.candidates:
            return found
        answer = self._reranker.rerank(request, found.candidates, token)
        places = checked_reranking(answer, len(found.candidates))[: request.limit]
        return Found(tuple(_placed(found.candidates[place.index], place) for place in places), found.metadata)


class CosineReranker:
    """Orders by the cosine between the embeddings of query and candidate; ties keep their order."""

    def __init__(self, embedding: EmbeddingProvider) -> None:
        self._embedding = embedding

    def rerank(
        self, request: RetrievalRequest, candidates: Sequence[Candidate], token: CancelToken
    ) -> Sequence[Reranked]:
        contents: list[JsonValue] = [request.query.content, *(each.content for each in candidates)]
        query, *others = checked_vectors(self._embedding.embed(contents, token), len(contents))
        scores = [cosine(query, vector) for vector in others]
        order = sorted(range(len(scores)), key=lambda index: -scores[index])
        return [Reranked(index, scores[index]) for index in order]


def cosine(left: Vector, right: Vector) -> float:
    """The cosine of the angle between two vectors; 0 if one of them is null."""
    lengths = math.hypot(*left) * math.hypot(*right)
    return sum(map(mul, left, right)) / lengths if lengths else 0.0


def _placed(candidate: Candidate, place: Reranked) -> Candidate:
    if place.score is None:
        return candidate
    return candidate.model_copy(update={"score": place.score})
