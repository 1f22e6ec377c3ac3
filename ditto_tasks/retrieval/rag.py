"""CONTEXT's rag strategy, served inline by a RETRIEVAL provider."""

from __future__ import annotations

from typing import Final

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import ContextItem
from ditto_tasks.context.rag import RagCandidate, RagRequest, StagedRag, rag_strategy
from ditto_tasks.errors import RetrievalError
from ditto_tasks.json_values import FrozenDict, JsonObject, JsonValue, text_or_json
from ditto_tasks.models import CancelToken, from_wire
from ditto_tasks.retrieval.answers import checked_found
from ditto_tasks.retrieval.base import RetrievalProvider
from ditto_tasks.retrieval.models import Candidate, RetrievalQuery, RetrievalRequest, RetrievalTarget

SOURCE_NODE: Final = "RETRIEVAL.SEARCH"
STRATEGY: Final = "inline"  # the provider was given, not chosen by name


def retrieval_rag_strategy(
    target: RetrievalTarget | JsonObject, *, provider: RetrievalProvider, limit: int = 10
) -> StagedRag:
    """A rag strategy for `ContextNodes`: the query goes to ``provider``, candidates come back as items.

    The request's options go to the provider; a corpus reference is in ``target.metadata.corpus``.
    """
    place = from_wire(RetrievalTarget, target, error=RetrievalError)

    def retrieve(request: RagRequest, execution: ContextExecution) -> list[RagCandidate]:
        asked = RetrievalRequest(
            RetrievalQuery(content=_query(request)),
            _with_corpus(place, request),
            STRATEGY,
            limit,
            options=request.options or FrozenDict(),
        )
        found = checked_found(provider.search(asked, execution.call or CancelToken()), limit)
        return [RagCandidate(context_item(each), each.score) for each in found.candidates]

    return rag_strategy(retrieve=retrieve)


def context_item(candidate: Candidate) -> ContextItem:
    """A candidate as an item: its id or else its source's reference, text as it is and else as JSON."""
    name = candidate.id or (candidate.source.ref if candidate.source else None)
    if name is None:
        raise RetrievalError("RETRIEVAL_INVALID_BACKEND_OUTPUT", "a candidate has neither id nor source.ref")
    metadata: JsonObject = {"sourceNode": SOURCE_NODE}
    if candidate.score is not None:
        metadata["relevance"] = candidate.score
    return ContextItem(id=name, content=text_or_json(candidate.content), metadata=metadata)


def _query(request: RagRequest) -> JsonValue:
    if not request.has_query:
        raise RetrievalError("RETRIEVAL_INVALID_INPUT", "/query: SELECT by retrieval needs a query")
    return request.query


def _with_corpus(target: RetrievalTarget, request: RagRequest) -> RetrievalTarget:
    if request.corpus is None:
        return target
    metadata = {**(target.metadata or {}), "corpus": request.corpus.wire_form()}
    return RetrievalTarget(**{**target.__dict__, "metadata": metadata})
