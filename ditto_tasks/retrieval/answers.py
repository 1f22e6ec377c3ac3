"""Checks of what providers, embedders and rerankers answered: it is other people's code, and may be wrong."""

import math
from collections.abc import Sequence

from ditto_tasks.errors import RetrievalError
from ditto_tasks.models import from_wire
from ditto_tasks.retrieval.base import Vector
from ditto_tasks.retrieval.models import Candidate, Found, Reranked


def checked_candidates(answer: object, limit: int) -> tuple[Candidate, ...]:
    """At most ``limit`` candidates with finite scores, in the order given."""
    if not isinstance(answer, (list, tuple)):
        raise _wrong("not a list")
    if len(answer) > limit:
        raise _wrong("more candidates than the limit")
    return tuple(map(_candidate, answer))


def checked_found(answer: object, limit: int) -> Found:
    """A provider's answer; a plain list of candidates is one without metadata."""
    if isinstance(answer, Found):
        return Found(checked_candidates(answer.candidates, limit), answer.metadata)
    return Found(checked_candidates(answer, limit))


def checked_vectors(answer: object, count: int, dimensions: int | None = None) -> list[Vector]:
    """``count`` vectors of finite numbers, all as long as each other and, where given, as ``dimensions``."""
    if not isinstance(answer, (list, tuple)) or len(answer) != count:
        raise _bad_embedding("not one vector a content")
    vectors = [_vector(vector) for vector in answer]
    lengths = {len(vector) for vector in vectors} | ({dimensions} if dimensions else set())
    if len(lengths) > 1 or 0 in lengths:
        raise _bad_embedding("vectors of other dimensions")
    return vectors


def checked_reranking(answer: object, count: int) -> Sequence[Reranked]:
    """Each index at most once, and one of ``count``; scores finite."""
    if not isinstance(answer, (list, tuple)) or not all(isinstance(place, Reranked) for place in answer):
        raise _wrong("not a list of Reranked")
    indexes = [place.index for place in answer]
    if not all(type(index) is int and 0 <= index < count for index in indexes):
        raise _wrong("an index that is no candidate's")
    if len(set(indexes)) != len(indexes):
        raise _wrong("a candidate twice")
    if not all(place.score is None or math.isfinite(place.score) for place in answer):
        raise _wrong("a score that is not finite")
    return answer


def as_vector(value: object) -> Vector | None:
    """A nonempty list of finite numbers as it is; None for anything else."""
    if isinstance(value, (list, tuple)) and value and all(map(_is_finite, value)):
        return value
    return None


def _candidate(value: object) -> Candidate:
    try:
        return from_wire(Candidate, value, error=RetrievalError)
    except RetrievalError:
        raise _wrong("a malformed candidate") from None


def _vector(value: object) -> Vector:
    vector = as_vector(value)
    if vector is None:
        raise _bad_embedding("a vector that is not a list of finite numbers")
    return vector


def _is_finite(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number)


def _wrong(what: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_INVALID_BACKEND_OUTPUT", f"the retrieval backend answered {what}")


def _bad_embedding(what: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_INVALID_EMBEDDING", f"the embedding provider answered {what}")
