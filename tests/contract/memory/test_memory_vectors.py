"""Vector search on PostgreSQL, and its refusal where there are no vectors."""

from collections.abc import Iterator

import pytest
from support.memories import Backend, code, contents, output, remember
from support.retrieval import Letters

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory import MemoryNodes, ScopedMemory
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.memory.stores.sql.vectors import Embedding

STORES = ("postgresql",)
DIMENSIONS = len(Letters.of(""))
VECTOR = {"strategy": "vector"}


@pytest.fixture
def embedded(backend: Backend) -> Iterator[SqlMemoryStore]:
    """A store whose texts have vectors."""
    store = SqlMemoryStore(
        backend.url, table=backend.table, embedding=Embedding(Letters(), DIMENSIONS, "letters")
    )
    store.migrate()
    yield store
    store.close()


def test_the_nearest_text_is_found_first(embedded: SqlMemoryStore) -> None:
    """Texts are found by cosine, highest first; a record without text, or with a null vector, isn't."""
    nodes = MemoryNodes(embedded)
    remember(nodes, "aab", {"text": "abb"}, "zzz", {"n": 1}, "123")
    found = output(nodes.search({"query": "aaab", **VECTOR}))
    assert [result["memory"]["content"] for result in found] == ["aab", {"text": "abb"}, "zzz"]
    assert found[0]["score"] > found[1]["score"] > found[2]["score"]
    assert contents(nodes.search({"query": Letters.of("z"), "limit": 1, **VECTOR})) == ["zzz"]
    assert contents(nodes.search({"query": "aab"})) == ["aab"]


def test_searches_are_filtered_and_confined(embedded: SqlMemoryStore) -> None:
    """Filters and namespaces are part of the search, not applied to its results."""
    nodes, other = MemoryNodes(embedded), MemoryNodes(ScopedMemory(embedded, "other"))
    remember(nodes, *["a"] * 12, metadata={"kind": "near"})
    remember(nodes, "ab", metadata={"kind": "far"})
    remember(other, "ac")
    asked = {"query": "a", "filter": {"kind": "far"}, "limit": 3, **VECTOR}
    assert contents(nodes.search(asked)) == ["ab"]
    assert contents(other.search({"query": "a", **VECTOR})) == ["ac"]


def test_vectors_follow_their_records(embedded: SqlMemoryStore) -> None:
    """UPDATE embeds a new text and drops the vector of one that is gone; DELETE removes both."""
    nodes = MemoryNodes(embedded)
    one, two, three = remember(nodes, "aaa", "bbb", "abc")
    output(nodes.update({"memories": [{"id": one, "content": "ccc"}, {"id": two, "content": None}]}))
    output(nodes.update({"memories": [{"id": one, "metadata": {"x": 1}}]}))
    assert contents(nodes.search({"query": "c", **VECTOR})) == ["ccc", "abc"]
    output(nodes.delete({"ids": [three]}))
    assert contents(nodes.search({"query": "c", **VECTOR})) == ["ccc"]


def test_repeated_writes_are_one(embedded: SqlMemoryStore) -> None:
    """A repeated operation, also after its record was deleted, writes no second record and no vector."""
    nodes = MemoryNodes(embedded)
    drafts = {"memories": [{"content": "aaa"}]}
    (item,) = output(nodes.write(drafts, operation_id="op"))
    output(nodes.delete({"ids": [item["id"]]}))
    assert output(nodes.write(drafts, operation_id="op")) == [item]
    assert contents(nodes.search({"query": "a", **VECTOR})) == []


def test_a_failing_embedder_writes_nothing(backend: Backend, embedded: SqlMemoryStore) -> None:
    """A batch whose texts can't be embedded isn't written."""
    failing = SqlMemoryStore(
        backend.url, table=backend.table, embedding=Embedding(Letters([[1.0]]), DIMENSIONS, "letters")
    )
    result = MemoryNodes(failing).write({"memories": [{"content": "aaa"}]})
    assert code(result) == "RETRIEVAL_INVALID_EMBEDDING"
    assert contents(MemoryNodes(embedded).query({})) == []
    failing.close()


@pytest.mark.parametrize(("dimensions", "model"), [(3, "letters"), (DIMENSIONS, "other")])
def test_another_embedding_is_refused(
    backend: Backend, embedded: SqlMemoryStore, dimensions: int, model: str
) -> None:
    """Vectors of another model or of other dimensions are not mixed with those that are there."""
    other = SqlMemoryStore(
        backend.url, table=backend.table, embedding=Embedding(Letters(), dimensions, model)
    )
    assert code(MemoryNodes(other).query({})) == "EMBEDDING_MISMATCH"
    with pytest.raises(MemoryError, match="EMBEDDING_MISMATCH"):
        other.migrate()
    other.close()


@pytest.mark.parametrize("query", ["", None, [1.0], {"a": 1}, [True] * DIMENSIONS])
def test_other_queries_are_refused(embedded: SqlMemoryStore, query: object) -> None:
    """A query that is neither text nor as many numbers as a vector has is INVALID_INPUT."""
    assert code(MemoryNodes(embedded).search({"query": query, **VECTOR})) == "INVALID_INPUT"


def test_without_embedding_there_is_no_vector_search(store: SqlMemoryStore, tmp_path: object) -> None:
    """Without an embedding the strategy is unsupported, and SQLite refuses to have one."""
    assert code(MemoryNodes(store).search({"query": "x", **VECTOR})) == "UNSUPPORTED_STRATEGY"
    with pytest.raises(MemoryError, match="PostgreSQL or Qdrant"):
        SqlMemoryStore(f"sqlite:///{tmp_path}/m.db", embedding=Embedding(Letters(), DIMENSIONS))
