"""MEMORY's search as a RETRIEVAL provider and the other way round, in process or through the task queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ditto_tasks.cancellation import CancelToken, current_token, working_for
from ditto_tasks.errors import MemoryError, RetrievalError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.memory.base import MemorySearchProvider
from ditto_tasks.memory.models import MemoryItem, MemorySearchResult, Search
from ditto_tasks.models import from_wire
from ditto_tasks.retrieval.base import RetrievalProvider
from ditto_tasks.retrieval.models import (
    Candidate,
    CandidateSource,
    Found,
    RetrievalQuery,
    RetrievalRequest,
    RetrievalTarget,
)

# node type and wire input to the wire form of its NodeResult: a client's `invoke` and `get`. Never inside
# of a task, for no task waits for another one's result.
Invoke: TypeAlias = Callable[[str, JsonObject], Mapping[str, JsonValue]]
MapOutput: TypeAlias = Callable[[Candidate], MemoryItem]

_CODES = {
    "INVALID_INPUT": "RETRIEVAL_INVALID_INPUT",
    "UNSUPPORTED_FILTER": "RETRIEVAL_INVALID_INPUT",
    "UNSUPPORTED_STRATEGY": "RETRIEVAL_STRATEGY_UNSUPPORTED",
    "INVALID_BACKEND_OUTPUT": "RETRIEVAL_INVALID_BACKEND_OUTPUT",
    "CANCELLED": "RETRIEVAL_CANCELLED",
    "TIMEOUT": "RETRIEVAL_TIMEOUT",
}


class MemoryRetrieval:
    """A `RetrievalProvider` over a MEMORY search provider; ``strategy`` is MEMORY's name for the search."""

    def __init__(self, memory: MemorySearchProvider, *, strategy: str | None = None) -> None:
        self._memory = memory
        self._strategy = strategy

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        wanted = memory_filter(request)
        search = Search(request.query.content, request.limit, self._strategy, wanted, request.options)
        try:
            with working_for(token):  # MEMORY's port passes none
                results = self._memory.search(search)
        except MemoryError as exc:
            code = _CODES.get(exc.code, "RETRIEVAL_BACKEND_ERROR")
            raise RetrievalError(code, exc.message) from exc
        return Found(tuple(map(candidate_of, results)))


class QueuedMemoryRetrieval:
    """As `MemoryRetrieval`, by a MEMORY.SEARCH task; for clients, never for tasks."""

    def __init__(self, invoke: Invoke, *, strategy: str | None = None) -> None:
        self._invoke = invoke
        self._strategy = strategy

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        asked: dict[str, JsonValue] = {"query": request.query.content, "limit": request.limit}
        optional = {"strategy": self._strategy, "filter": memory_filter(request), "options": request.options}
        asked.update({name: value for name, value in optional.items() if value})
        output = _succeeded(self._invoke("MEMORY.SEARCH", asked), RetrievalError, _CODES)
        if not isinstance(output, list):
            raise RetrievalError("RETRIEVAL_INVALID_BACKEND_OUTPUT", "MEMORY.SEARCH answered no list")
        results = [from_wire(MemorySearchResult, result, error=RetrievalError) for result in output]
        return Found(tuple(map(candidate_of, results)))


class RetrievalMemory:
    """A `MemorySearchProvider` over a RETRIEVAL provider.

    A candidate becomes the record of its id, content and metadata. Where candidates don't hold that,
    ``map_output`` must say which record each one is.
    """

    def __init__(
        self,
        provider: RetrievalProvider,
        target: RetrievalTarget,
        *,
        strategy: str,
        map_output: MapOutput | None = None,
    ) -> None:
        self._provider = provider
        self._target = target
        self._strategy = strategy
        self._map = map_output or complete_item

    def search(self, search: Search) -> Sequence[MemorySearchResult]:
        request = RetrievalRequest(
            RetrievalQuery(content=search.query),
            self._target,
            search.strategy or self._strategy,
            search.limit,
            search.filter,
            search.options,
        )
        found = self._provider.search(request, current_token())
        return [_result(candidate, self._map) for candidate in found.candidates]


class QueuedRetrievalMemory:
    """As `RetrievalMemory`, by a RETRIEVAL.SEARCH task; for clients, never for tasks."""

    def __init__(
        self, invoke: Invoke, target: RetrievalTarget, *, map_output: MapOutput | None = None
    ) -> None:
        self._invoke = invoke
        self._target = target
        self._map = map_output or complete_item

    def search(self, search: Search) -> Sequence[MemorySearchResult]:
        asked: dict[str, JsonValue] = {
            "query": {"content": search.query},
            "target": self._target.wire_form(),
            "limit": search.limit,
        }
        optional = {"strategy": search.strategy, "filter": search.filter, "options": search.options}
        asked.update({name: value for name, value in optional.items() if value})
        output = _succeeded(self._invoke("RETRIEVAL.SEARCH", asked), MemoryError, {})
        listed = output.get("candidates") if isinstance(output, dict) else None
        if not isinstance(listed, list):
            raise MemoryError("INVALID_BACKEND_OUTPUT", "RETRIEVAL.SEARCH answered no candidates")
        return [_result(from_wire(Candidate, each, error=MemoryError), self._map) for each in listed]


def candidate_of(result: MemorySearchResult) -> Candidate:
    """A record that was found, as a candidate."""
    item = result.memory
    values: dict[str, object] = {
        "id": item.id,
        "content": item.content,
        "score": result.score,
        "metadata": item.metadata,
    }
    given = {name: value for name, value in values.items() if value is not None or name == "content"}
    if item.key is not None:
        given["source"] = CandidateSource(ref=item.key)
    return Candidate.assemble(given)


def complete_item(candidate: Candidate) -> MemoryItem:
    """The record that a candidate holds, or INVALID_BACKEND_OUTPUT if it has no id."""
    if candidate.id is None:
        raise MemoryError("INVALID_BACKEND_OUTPUT", "a candidate holds no record: map_output is required")
    key = candidate.source.ref if candidate.source else None
    return MemoryItem(id=candidate.id, key=key, content=candidate.content, metadata=candidate.metadata)


def memory_filter(request: RetrievalRequest) -> JsonObject | None:
    """The request's filter, within the target's namespace where it names one."""
    if request.target.namespace is None:
        return request.filter
    return {**(request.filter or {}), "namespace": request.target.namespace}


def _result(candidate: Candidate, map_output: MapOutput) -> MemorySearchResult:
    return MemorySearchResult(memory=map_output(candidate), score=candidate.score)


def _succeeded(
    result: Mapping[str, JsonValue], error: type[RetrievalError] | type[MemoryError], codes: Mapping[str, str]
) -> JsonValue:
    """The output of a NodeResult, or its error as ``error``."""
    if result.get("status") == "success":
        return result.get("output")
    problem = result.get("error")
    told = problem if isinstance(problem, dict) else {}
    code = str(told.get("code", "RETRIEVAL_BACKEND_ERROR"))
    raise error(codes.get(code, code), str(told.get("message", "the search failed")))
