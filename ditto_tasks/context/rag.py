"""A RAG strategy made of two or three functions: embed?, retrieve, rank?."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from ditto_tasks.context.base import ContextExecution, Items
from ditto_tasks.context.inputs import SelectInput
from ditto_tasks.context.models import ContextItem, ContextReference
from ditto_tasks.context.steps import Steps, drive
from ditto_tasks.json_values import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class RagCandidate:
    """An item that was retrieved; score and metadata are for `rank` and go no further."""

    item: ContextItem | JsonObject
    score: float | None = None
    metadata: JsonObject | None = None


Candidate: TypeAlias = "RagCandidate | Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class RagRequest:
    """What each stage sees. `embedding` is what `embed` answered; `candidates` is for `rank` only."""

    items: tuple[ContextItem, ...]
    query: JsonValue = None
    has_query: bool = False
    corpus: ContextReference | None = None
    options: JsonObject | None = None
    embedding: object = None
    candidates: Sequence[Candidate] = ()


Embed: TypeAlias = Callable[[RagRequest, ContextExecution], object]
Retrieve: TypeAlias = Callable[
    [RagRequest, ContextExecution], "Sequence[Candidate] | Awaitable[Sequence[Candidate]]"
]


@dataclass(frozen=True, slots=True)
class StagedRag:
    """Runs the stages one after another; of several candidates for one item the first counts."""

    embed: Embed | None
    retrieve: Retrieve
    rank: Retrieve | None

    def select(self, request: SelectInput, execution: ContextExecution) -> Items:
        """All stages at once, for sync stages."""
        return cast("Items", drive(self.steps(request, execution)))  # which SELECT checks

    def steps(self, request: SelectInput, execution: ContextExecution) -> Steps[object]:
        base = _base(request)
        asked = base
        if self.embed is not None:
            embed = self.embed
            asked = replace(base, embedding=(yield lambda: embed(base, execution)))
            execution.checkpoint()
        candidates = yield lambda: self.retrieve(asked, execution)
        execution.checkpoint()
        if self.rank is not None:
            rank = self.rank
            retrieved = replace(base, candidates=candidates)  # type: ignore[arg-type]  # rank gets it as it came
            candidates = yield lambda: rank(retrieved, execution)
            execution.checkpoint()
        return _first_of_each(candidates)


def rag_strategy(
    *, embed: Embed | None = None, retrieve: Retrieve, rank: Retrieve | None = None
) -> StagedRag:
    """A strategy for SELECT's kind "rag"; each stage is called as `stage(request, execution)`."""
    return StagedRag(embed, retrieve, rank)


def _base(request: SelectInput) -> RagRequest:
    strategy = request.strategy
    return RagRequest(
        items=request.context.items if request.context else (),
        query=request.query,
        has_query="query" in request.model_fields_set,
        corpus=strategy.corpus if strategy else None,
        options=strategy.options if strategy else None,
    )


def _first_of_each(candidates: object) -> object:
    """Their items, each id once. What is no list or no item is for SELECT to refuse."""
    if not isinstance(candidates, (list, tuple)):
        return candidates
    first: dict[object, object] = {}
    for candidate in candidates:
        item = _item_of(candidate)
        first.setdefault(_id_of(item), item)
    return list(first.values())


def _item_of(candidate: object) -> object:
    item = candidate.item if isinstance(candidate, RagCandidate) else None
    if isinstance(candidate, Mapping):
        item = candidate.get("item")
    if item is None:
        raise TypeError("a RAG candidate has no item")
    return item


def _id_of(item: object) -> object:
    found = item.id if isinstance(item, ContextItem) else item.get("id") if isinstance(item, dict) else None
    return found if isinstance(found, str) else object()  # without an id it is like no other
