"""Weighted reciprocal rank fusion: several rankings as one, by ranks alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ditto_tasks.json_values import JsonObject, JsonValue, freeze
from ditto_tasks.retrieval.models import Candidate

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Ranking:
    """What one branch found, best first, and how much its ranks count."""

    name: str
    weight: float
    candidates: Sequence[Candidate]


@dataclass(slots=True)
class _Fused:
    candidate: Candidate
    score: float = 0.0
    branches: dict[str, JsonValue] = field(default_factory=dict)


def fuse(rankings: Sequence[Ranking], *, rrf_k: float, target: str, limit: int) -> tuple[Candidate, ...]:
    """The best ``limit`` by sum(weight / (rrf_k + rank)), ranks from 1; ties keep the order first seen.

    Of a candidate found by several branches the first one's content is kept. A candidate without id and
    source.ref is itself only. Each branch's score, rank and weight are in ``metadata.fusion``.
    """
    fused: dict[Identity, _Fused] = {}
    for ranking in rankings:
        for rank, candidate in enumerate(ranking.candidates, 1):
            identity = identity_of(candidate, target) or _own_identity(ranking, rank)
            entry = fused.setdefault(identity, _Fused(candidate))
            if ranking.name not in entry.branches:
                entry.score += ranking.weight / (rrf_k + rank)
                entry.branches[ranking.name] = _branch(candidate, rank, ranking.weight)
    best = sorted(fused.values(), key=lambda entry: -entry.score)
    return tuple(_with_fusion(entry) for entry in best[:limit])


def identity_of(candidate: Candidate, target: str) -> Identity | None:
    """[source.target or the target, id or source.ref]; None for a candidate that has neither."""
    source = candidate.source
    name = candidate.id or (source.ref if source else None)
    return None if name is None else ((source.target if source else None) or target, name)


def _own_identity(ranking: Ranking, rank: int) -> Identity:
    """Of a candidate that nothing names; the NUL keeps it apart from every name."""
    return f"\0{ranking.name}", str(rank)


def _branch(candidate: Candidate, rank: int, weight: float) -> JsonObject:
    scored: JsonObject = {} if candidate.score is None else {"score": candidate.score}
    return {**scored, "rank": rank, "weight": weight}


def _with_fusion(entry: _Fused) -> Candidate:
    metadata = {**(entry.candidate.metadata or {}), "fusion": dict(entry.branches)}
    return entry.candidate.model_copy(update={"score": entry.score, "metadata": freeze(metadata)})
