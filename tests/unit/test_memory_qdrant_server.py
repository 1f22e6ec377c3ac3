"""Qdrant over HTTP: answers are bounded in size and time, and a write that is not confirmed says so."""

from collections.abc import Iterator

import pytest
from support.memories import code, contents, output
from support.qdrant_server import QdrantServer
from support.retrieval import Letters

from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores import qdrant_answers
from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore

LARGE = 1_500_000  # characters; a dozen is more than an answer may hold
DRAFTS = {"memories": [{"key": "k", "content": "text"}]}


@pytest.fixture
def qdrant() -> Iterator[QdrantServer]:
    with QdrantServer() as running:
        yield running


@pytest.fixture
def nodes(qdrant: QdrantServer) -> Iterator[MemoryNodes]:
    """The nodes over a store on the server."""
    store = QdrantMemoryStore(qdrant.url, dimensions=len(Letters.of("")), embedding=Letters())
    yield MemoryNodes(store)
    store.close()


def test_what_is_too_large_for_an_answer_is_read_in_parts(qdrant: QdrantServer, nodes: MemoryNodes) -> None:
    """GET, QUERY and SEARCH of 24 MB give every record, in answers of at most 16 MiB each."""
    texts = [chr(97 + n) * LARGE for n in range(16)]
    ids = [output(nodes.write({"memories": [{"content": text}]}))[0]["id"] for text in texts]
    qdrant.sizes.clear()
    assert contents(nodes.get({"ids": ids})) == texts
    assert contents(nodes.query({"limit": 100})) == texts
    assert sorted(contents(nodes.search({"query": "a", "limit": 100}))) == texts
    assert len([size for size in qdrant.sizes if size < qdrant_answers.MAX_ANSWER_BYTES]) >= 3 * 4


def test_an_endless_answer_is_not_read_to_its_end(qdrant: QdrantServer, nodes: MemoryNodes) -> None:
    """An answer past the bound is MEMORY_BACKEND_ERROR, and its connection is closed."""
    qdrant.fail("endless", "POST .*")
    assert code(nodes.get({"ids": ["0" * 8 + "-0000-0000-0000-" + "0" * 12]})) == "MEMORY_BACKEND_ERROR"
    assert qdrant.unread.wait(10)


def test_an_answer_that_drips_ends_in_time(
    qdrant: QdrantServer, nodes: MemoryNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is that of the whole answer, and not of each byte."""
    monkeypatch.setattr(qdrant_answers, "TIMEOUT_S", 0.5)
    qdrant.fail("drip", "POST .*")
    assert code(nodes.query({})) == "MEMORY_BACKEND_ERROR"
    assert qdrant.unread.wait(10)


@pytest.mark.parametrize("fault", ["500", "cut"])
def test_a_write_without_an_answer_is_unconfirmed(
    qdrant: QdrantServer, nodes: MemoryNodes, fault: str
) -> None:
    """A WRITE that was perhaps made is WRITE_UNCONFIRMED, without the server's text; repeated, it is one."""
    qdrant.fail(fault, "PUT .*/points")
    failed = nodes.write(DRAFTS, operation_id="op")
    assert code(failed) == "WRITE_UNCONFIRMED"
    assert "canary" not in str(failed)
    qdrant.fail("", "never")
    written = output(nodes.write(DRAFTS, operation_id="op"))
    assert output(nodes.write(DRAFTS, operation_id="op")) == written
    assert [payload["key"] for payload in qdrant.points.values() if payload["kind"] == "memory"] == ["k"]


def test_a_delete_without_an_answer_is_unconfirmed(qdrant: QdrantServer, nodes: MemoryNodes) -> None:
    """DELETE whose answer is lost is WRITE_UNCONFIRMED, and repeated it says what it deleted."""
    (item,) = output(nodes.write(DRAFTS))
    qdrant.fail("500", "POST .*/delete")
    assert code(nodes.delete({"ids": [item["id"]]})) == "WRITE_UNCONFIRMED"
    qdrant.fail("", "never")
    assert output(nodes.delete({"ids": [item["id"]]})) == {"deleted": [item["id"]]}
