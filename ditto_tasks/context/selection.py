"""SELECT's default strategy: a score from metadata, words in common with the query, and age."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ditto_tasks.context.inputs import SelectInput
from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.text import has_term, terms, text_of
from ditto_tasks.json_values import JsonObject

_NO_METADATA: JsonObject = {}


class Scored(NamedTuple):
    score: float
    item: ContextItem


def default_select(request: SelectInput | JsonObject) -> tuple[ContextItem, ...]:
    """All eligible items of the request's context, best first."""
    return tuple(each.item for each in ranking(SelectInput.parse(request)))


def ranking(request: SelectInput) -> list[Scored]:
    """The eligible items with their scores, best first."""
    items = request.context.items if request.context else ()
    query = query_terms(request)
    scored = [
        Scored(score_of(item, index, len(items), request.purpose, query), item)
        for index, item in enumerate(items)
    ]
    if request.purpose == "memory":
        scored = [each for each in scored if may_be_remembered(each.item)]
    return _ranked(scored)


def query_terms(request: SelectInput) -> frozenset[str]:
    """The query's words; a null query has the word null, an absent one none."""
    return terms(text_of(request.query)) if "query" in request.model_fields_set else frozenset()


def number(metadata: JsonObject, key: str) -> float:
    """A number as a double; anything else counts as 0."""
    value = metadata.get(key)
    if value is None:
        return 0.0  # as nearly always
    return 0.0 if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)


def overlap(query: frozenset[str], item: ContextItem) -> float:
    """The share of the query's words that the item's text has."""
    if not query:
        return 0.0
    text = text_of(item.content).lower()
    return sum(has_term(text, term) for term in query) / len(query)


def score_of(item: ContextItem, index: int, total: int, purpose: str, query: frozenset[str]) -> float:
    """What an item at this place of the context is worth."""
    metadata = item.metadata or _NO_METADATA
    score = _purpose_bonus(metadata, purpose)
    score += number(metadata, "priority") * 100
    score += number(metadata, "relevance") * 10
    score += overlap(query, item) * 1000
    return score + index / max(1, total)


def _purpose_bonus(metadata: JsonObject, purpose: str) -> float:
    if purpose == "memory":
        bonuses = (("memoryCandidate", 500.0), ("reusable", 100.0), ("stable", 50.0))
        return sum((bonus for flag, bonus in bonuses if metadata.get(flag) is True), 0.0)
    first = metadata.get("protected") is True or metadata.get("currentGoal") is True
    return 1_000_000.0 if first or metadata.get("role") == "system" else 0.0


def may_be_remembered(item: ContextItem) -> bool:
    metadata = item.metadata or _NO_METADATA
    return metadata.get("private") is not True and metadata.get("memoryEligible") is not False


def _ranked(scored: Iterable[Scored]) -> list[Scored]:
    """By score, then by index, which the stable sort keeps.

    A score may be NaN. The sort asks only whether a later item goes before an earlier one, and NaN never
    does: the reference's comparator, which falls back to the index, says the same.
    """
    return sorted(scored, key=lambda each: -each.score)
