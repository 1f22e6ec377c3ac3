"""MEMORY as RETRIEVAL, RETRIEVAL as MEMORY, and RETRIEVAL as CONTEXT's rag strategy."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.memories import code, output, remember
from support.retrieval import Backend, candidates, search

from ditto_tasks.context import ContextNodes, ContextServices
from ditto_tasks.errors import RetrievalError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.memory import MemoryItem, MemoryNodes, ScopedMemory
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.models import to_wire
from ditto_tasks.retrieval import (
    Candidate,
    MemoryRetrieval,
    QueuedMemoryRetrieval,
    QueuedRetrievalMemory,
    RetrievalMemory,
    RetrievalNodes,
    RetrievalTarget,
    Target,
    TargetRegistry,
    TextProvider,
    retrieval_rag_strategy,
)
from ditto_tasks.retrieval.opening import open_retrieval
from ditto_tasks.settings import default_settings

TARGET = RetrievalTarget(name="t")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlMemoryStore]:
    """A store with one record."""
    store = SqlMemoryStore(f"sqlite:///{tmp_path / 'memory.db'}")
    remember(MemoryNodes(store), "a quick fox", key="k", metadata={"kind": "note"})
    yield store
    store.close()


def test_memory_as_retrieval(store: SqlMemoryStore) -> None:
    """A record becomes a candidate with its id, content, score, metadata, and its key as source.ref."""
    (found,) = candidates(search(MemoryRetrieval(store), "fox", filter={"kind": "note"}))
    assert found["id"] == store.get(ids=[], keys=["k"])[0].id
    assert (found["content"], found["metadata"], found["source"]) == (
        "a quick fox",
        {"kind": "note"},
        {"ref": "k"},
    )
    assert found["score"] > 0


def test_the_targets_namespace_is_where_is_searched(store: SqlMemoryStore) -> None:
    """A target's namespace goes into the filter; a confined store finds nothing outside of its own."""
    remember(MemoryNodes(ScopedMemory(store, "other")), "another fox")
    target = {"name": "t", "namespace": "other"}
    (found,) = candidates(search(MemoryRetrieval(store), "fox", target=target))
    assert found["content"] == "another fox"
    scoped = MemoryRetrieval(ScopedMemory(store, "third"))
    assert candidates(search(scoped, "fox", target=target)) == []


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ({"filter": {"nope": 1}}, "RETRIEVAL_INVALID_INPUT"),
        ({"query": {"content": 1}}, "RETRIEVAL_INVALID_INPUT"),
    ],
)
def test_memory_errors_become_retrieval_errors(
    store: SqlMemoryStore, wire: JsonObject, expected: str
) -> None:
    """A MemoryError has its RETRIEVAL code."""
    assert search(MemoryRetrieval(store), "fox", **wire).error.code == expected
    assert (
        search(MemoryRetrieval(store, strategy="vector"), "x").error.code == "RETRIEVAL_STRATEGY_UNSUPPORTED"
    )


def test_through_the_queue_is_the_same(store: SqlMemoryStore) -> None:
    """By a MEMORY.SEARCH task the candidates are the same, and its failure is the search's."""
    nodes = MemoryNodes(store)

    def invoke(node: str, wire: JsonObject) -> JsonObject:
        return to_wire(nodes.execute(node, wire))

    queued = QueuedMemoryRetrieval(invoke)
    assert candidates(search(queued, "fox")) == candidates(search(MemoryRetrieval(store), "fox"))
    assert search(queued, "fox", filter={"nope": 1}).error.code == "RETRIEVAL_INVALID_INPUT"


def test_retrieval_as_memory() -> None:
    """A candidate with an id becomes a record; the order and the scores are kept."""
    backend = Backend(
        [{"id": "a", "content": 1, "score": 0.5, "metadata": {"x": 1}}, {"id": "b", "content": 2}]
    )
    memory = RetrievalMemory(TextProvider(backend), TARGET, strategy="s")
    nodes = MemoryNodes(SqlMemoryStore("sqlite:///unused.db"), search=memory)
    assert output(nodes.search({"query": "x", "limit": 2})) == [
        {"memory": {"id": "a", "content": 1, "metadata": {"x": 1}}, "score": 0.5},
        {"memory": {"id": "b", "content": 2}},
    ]


def test_incomplete_candidates_need_a_mapping() -> None:
    """Without an id a candidate is no record, unless map_output makes one of it."""
    backend = Backend([{"content": "x", "source": {"ref": "r"}}])

    def by_reference(candidate: Candidate) -> MemoryItem:
        return MemoryItem(id=candidate.source.ref, content=candidate.content)

    store = SqlMemoryStore("sqlite:///unused.db")
    bare = RetrievalMemory(TextProvider(backend), TARGET, strategy="s")
    mapped = RetrievalMemory(TextProvider(backend), TARGET, strategy="s", map_output=by_reference)
    assert code(MemoryNodes(store, search=bare).search({"query": "x"})) == "INVALID_BACKEND_OUTPUT"
    assert output(MemoryNodes(store, search=mapped).search({"query": "x"})) == [
        {"memory": {"id": "r", "content": "x"}}
    ]


def test_retrieval_as_memory_through_the_queue() -> None:
    """By a RETRIEVAL.SEARCH task the records are the same."""
    backend = Backend([{"id": "a", "content": 1, "score": 0.5}])
    retrieval = RetrievalNodes(TargetRegistry({"t": Target("s", {"s": TextProvider(backend)})}))
    queued = QueuedRetrievalMemory(lambda node, wire: to_wire(retrieval.execute(node, wire)), TARGET)
    nodes = MemoryNodes(SqlMemoryStore("sqlite:///unused.db"), search=queued)
    assert output(nodes.search({"query": "x"})) == [{"memory": {"id": "a", "content": 1}, "score": 0.5}]
    assert code(nodes.search({"query": "x", "strategy": "other"})) == "RETRIEVAL_STRATEGY_UNSUPPORTED"


def test_rag_strategy() -> None:
    """SELECT by rag gives items: id or else source.ref, text or else JSON, the score as relevance."""
    backend = Backend(
        [{"id": "a", "content": {"x": 1}, "score": 0.5}, {"content": "B", "source": {"ref": "b"}}]
    )
    strategy = retrieval_rag_strategy({"name": "t"}, provider=TextProvider(backend), limit=3)
    nodes = ContextNodes(services=ContextServices(rag_strategy=strategy))
    request = {"kind": "rag", "options": {"o": 1}, "corpus": {"uri": "urn:x"}}
    selection = nodes.select(context={"items": []}, purpose="infer", query="q", strategy=request)
    assert to_wire(selection)["context"]["items"] == [
        {"id": "a", "content": '{"x":1}', "metadata": {"sourceNode": "RETRIEVAL.SEARCH", "relevance": 0.5}},
        {"id": "b", "content": "B", "metadata": {"sourceNode": "RETRIEVAL.SEARCH"}},
    ]
    ((text, asked),) = backend.asked
    assert (text, asked.limit, asked.options) == ("q", 3, {"o": 1})
    assert asked.target.metadata == {"corpus": {"uri": "urn:x"}}


@pytest.mark.parametrize("query", [{}, {"query": "q"}])
def test_rag_refuses_what_it_cannot_do(query: JsonObject) -> None:
    """No query, and a candidate that nothing names, are errors."""
    strategy = retrieval_rag_strategy(TARGET, provider=TextProvider(Backend([{"content": 1}])))
    nodes = ContextNodes(services=ContextServices(rag_strategy=strategy))
    with pytest.raises(RetrievalError):
        nodes.select(context={"items": []}, purpose="infer", strategy={"kind": "rag"}, **query)


def test_a_configured_memory_is_a_target(tmp_path: Path) -> None:
    """Where a memory is configured, RETRIEVAL has the target "memory" without any extension."""
    env = {"DITTO_WORKER_MEMORY_URL": f"sqlite:///{tmp_path / 'memory.db'}"}
    nodes = open_retrieval(default_settings(env), {"mine": Target("s", {"s": TextProvider(Backend([]))})})
    for target in ("memory", "mine"):
        assert candidates(nodes.search({"query": {"content": "x"}, "target": {"name": target}})) == []
    none = open_retrieval(default_settings({}), {})
    refused = none.search({"query": {"content": "x"}, "target": {"name": "memory"}})
    assert refused.error.code == "RETRIEVAL_TARGET_NOT_FOUND"
    with pytest.raises(TypeError, match="Target"):
        open_retrieval(default_settings({}), {"x": object()})
