"""What only Qdrant has: vectors, collections that know their embedding, and URLs of its own."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from qdrant_client import QdrantClient
from support.memories import code, contents, output, remember
from support.retrieval import Letters

from ditto_tasks.errors import MemoryError, SettingsError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory import MemoryNodes, ScopedMemory
from ditto_tasks.memory.erasure import TOMBSTONE_KEEP_MS, Subject
from ditto_tasks.memory.opening import open_store
from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore
from ditto_tasks.models import CancelToken
from ditto_tasks.settings import default_settings

DIMENSIONS = len(Letters.of(""))


def open_local(directory: Path, **changes: object) -> QdrantMemoryStore:
    """A store in a local folder."""
    options = {"dimensions": DIMENSIONS, "model": "letters", "embedding": Letters(), **changes}
    return QdrantMemoryStore(f"qdrant+local://{directory}/memories", **options)


def test_the_nearest_text_is_found_first(tmp_path: Path) -> None:
    """Text and content.text are found by cosine; a record without a vector only by GET and QUERY."""
    store = open_local(tmp_path)
    nodes = MemoryNodes(store)
    remember(nodes, "aab", {"text": "abb"}, "zzz", {"n": 1})
    found = output(nodes.search({"query": "aaab"}))
    assert [result["memory"]["content"] for result in found] == ["aab", {"text": "abb"}, "zzz"]
    assert found[0]["score"] > found[1]["score"] > found[2]["score"]
    assert {"n": 1} in contents(nodes.query({}))
    store.close()


def test_stores_of_a_process_share_a_folder(tmp_path: Path) -> None:
    """What one writes the other finds; each is closed for itself, and the last one leaves the folder."""
    written, read = open_local(tmp_path), open_local(tmp_path)
    remember(MemoryNodes(written), "aab")
    written.close()
    written.close()
    assert contents(MemoryNodes(read).query({})) == ["aab"]
    with pytest.raises(MemoryError, match="EMBEDDING_MISMATCH"):
        open_local(tmp_path, model="other")
    read.close()
    alone = QdrantClient(path=str(tmp_path))  # refuses a folder that is open
    alone.close()


def test_searches_are_filtered_and_confined(tmp_path: Path) -> None:
    """Filters, ranges included, and namespaces are part of the search."""
    store = open_local(tmp_path)
    nodes = MemoryNodes(store)
    for number in range(5):
        remember(nodes, "a" * (number + 1), metadata={"n": number, "kind": "x"})
    remember(MemoryNodes(ScopedMemory(store, "other")), "a", metadata={"n": 3})
    asked = {"query": "a", "filter": {"kind": "x", "metadata": {"n": {"gte": 3}}}}
    assert sorted(contents(nodes.search(asked))) == ["aaaa", "aaaaa"]
    assert contents(MemoryNodes(ScopedMemory(store, "other")).search({"query": "a"})) == ["a"]
    assert contents(MemoryNodes(ScopedMemory(store, "third")).search({"query": "a"})) == []
    assert code(nodes.search({"query": "a", "strategy": "keyword"})) == "UNSUPPORTED_STRATEGY"
    assert code(nodes.search({"query": [1.0]})) == "INVALID_INPUT"
    assert code(nodes.search({"query": ""})) == "INVALID_INPUT"
    assert len(contents(nodes.search({"query": Letters.of("a"), "limit": 2}))) == 2
    store.close()


def test_updated_texts_are_embedded_again(tmp_path: Path) -> None:
    """After UPDATE a record is found by its new text, and one that lost its text isn't found."""
    store = open_local(tmp_path)
    nodes = MemoryNodes(store)
    one, two = remember(nodes, "aaa", "bbb")
    output(nodes.update({"memories": [{"id": one, "content": "ccc"}, {"id": two, "content": None}]}))
    assert contents(nodes.search({"query": "c"})) == ["ccc"]
    store.close()


@pytest.mark.parametrize("change", [{"model": "other"}, {"dimensions": 3}])
def test_another_embedding_is_refused_at_open(tmp_path: Path, change: dict[str, object]) -> None:
    """A collection that was made for another model or other dimensions isn't opened."""
    open_local(tmp_path).close()
    open_local(tmp_path).close()
    with pytest.raises(MemoryError, match="EMBEDDING_MISMATCH"):
        open_local(tmp_path, **change)


def test_without_embedding_only_vectors_are_searched(tmp_path: Path) -> None:
    """Without an embedding provider records are kept, and text can't be searched for."""
    store = open_local(tmp_path, embedding=None)
    nodes = MemoryNodes(store)
    remember(nodes, "aaa")
    assert contents(nodes.query({})) == ["aaa"]
    assert code(nodes.search({"query": "a"})) == "SEARCH_UNAVAILABLE"
    store.close()


def test_opened_by_url(tmp_path: Path) -> None:
    """The URL of a local folder opens it; without the dimensions the error names their variable."""
    env = {"DITTO_WORKER_MEMORY_URL": f"qdrant+local://{tmp_path}/memories"}
    with pytest.raises(SettingsError, match="DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS"):
        open_store(default_settings(env))
    store = open_store(default_settings({**env, "DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS": "3"}))
    assert isinstance(store, QdrantMemoryStore)
    store.close()


@pytest.mark.parametrize("subject", [Subject("session", "a:s"), Subject("tenant", "a")])
def test_erasure_leaves_no_point_and_refuses_late_writes(tmp_path: Path, subject: Subject) -> None:
    """Records, by namespace and by key, and operations go; look-alikes stay; for a week writes are ERASED."""
    now_ms = [1_000_000_000_000]
    store = open_local(tmp_path, clock_ms=lambda: now_ms[0])
    for namespace in ("a:s", "ab:s"):
        nodes = MemoryNodes(ScopedMemory(store, namespace))
        output(nodes.write({"memories": [{"content": namespace}]}, operation_id="op"))
        remember(MemoryNodes(store), namespace, key=f"{namespace}/1")
    assert store.remaining(subject) == {"memories": 2, "memory operations": 1}
    store.erase(subject)
    assert store.remaining(subject) == {"memories": 0, "memory operations": 0}
    assert contents(MemoryNodes(ScopedMemory(store, "ab:s")).query({})) == ["ab:s"]
    assert contents(MemoryNodes(store).query({})) == ["ab:s"]
    assert contents(MemoryNodes(store).search({"query": "as", "limit": 10})) == ["ab:s"]
    theirs, draft = MemoryNodes(ScopedMemory(store, "a:s")), {"memories": [{"content": "late"}]}
    assert code(theirs.write(draft, operation_id="op")) == "ERASED"
    assert code(MemoryNodes(store).write({"memories": [{"content": 1, "key": "a:s/2"}]})) == "ERASED"
    now_ms[0] += TOMBSTONE_KEEP_MS
    assert output(theirs.write(draft))
    store.close()


@pytest.mark.parametrize("url", ["qdrant://", "qdrant://host", "qdrant+local:///x", "http://host/x"])
def test_incomplete_urls_are_refused(url: str) -> None:
    """A URL without host, folder or collection is INVALID_INPUT."""
    with pytest.raises(MemoryError, match="INVALID_INPUT"):
        QdrantMemoryStore(url, dimensions=3)


class Erasing(Letters):
    """Lets an erasure happen while texts are embedded: after the look at tombstones, before the write."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], None] | None = None

    def embed(self, contents: Sequence[JsonValue], call: CancelToken) -> object:
        if self.then is not None:
            self.then()
        return super().embed(contents, call)


def test_a_write_at_work_leaves_nothing_behind(tmp_path: Path) -> None:
    """WRITE and UPDATE during which their session is erased are ERASED, and leave nothing."""
    embedding, subject = Erasing(), Subject("session", "a")
    store = open_local(tmp_path, embedding=embedding)
    nodes = MemoryNodes(ScopedMemory(store, "a"))
    (kept,) = remember(nodes, "aa")
    embedding.then = lambda: store.erase(subject)
    assert code(nodes.update({"memories": [{"id": kept, "content": "bb"}]})) == "ERASED"
    assert not any(store.remaining(subject).values())
    late = MemoryNodes(ScopedMemory(store, "b"))
    embedding.then = lambda: store.erase(Subject("session", "b"))
    drafts = {"memories": [{"content": "cc"}, {"key": "k", "content": "dd"}]}
    assert code(late.write(drafts, operation_id="op")) == "ERASED"
    assert not any(store.remaining(Subject("session", "b")).values())
    store.close()


def test_an_unreachable_server_is_a_typed_error() -> None:
    """A server that can't be reached is MEMORY_BACKEND_ERROR, without its address."""
    with pytest.raises(MemoryError, match="MEMORY_BACKEND_ERROR") as caught:
        QdrantMemoryStore("qdrant://127.0.0.1:1/memories", dimensions=3)
    assert "127.0.0.1" not in str(caught.value)
