"""Memory stores for tests, and short ways to ask them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.models import NodeResult
from support.retrieval import Letters

Store = SqlMemoryStore | QdrantMemoryStore


@dataclass(frozen=True)
class Backend:
    """Where a store is; picklable, so that other processes can open it too."""

    kind: str
    url: str
    table: str

    @property
    def dialect(self) -> str:
        """What SQLAlchemy calls the database."""
        return "mysql" if self.kind == "mariadb" else self.kind

    @contextmanager
    def open(self, *, clock_ms: Callable[[], int] | None = None) -> Iterator[Store]:
        """The store, closed at the end."""
        store: Store
        if self.kind == "qdrant":
            dimensions = len(Letters.of(""))
            store = QdrantMemoryStore(
                self.url, dimensions=dimensions, model="letters", embedding=Letters(), clock_ms=clock_ms
            )
        else:
            store = SqlMemoryStore(self.url, table=self.table, clock_ms=clock_ms)
        try:
            yield store
        finally:
            store.close()


def output(result: NodeResult) -> JsonValue:
    """The output of a result that must be a success."""
    assert result.status == "success", result
    return result.output


def code(result: NodeResult) -> str:
    """The error code of a result that must be a failure."""
    assert result.status == "failed", result
    assert result.error is not None
    assert result.output is None
    return result.error.code


def remember(nodes: MemoryNodes, *contents: JsonValue, **draft: JsonValue) -> list[str]:
    """Write drafts of these contents; their ids."""
    drafts = [{"content": content, **draft} for content in contents]
    return [item["id"] for item in output(nodes.write({"memories": drafts}))]


def contents(result: NodeResult) -> list[JsonValue]:
    """The contents of a list of records or of search results, or of a page."""
    listed = output(result)
    items = listed["items"] if isinstance(listed, Mapping) else listed
    return [item.get("memory", item)["content"] for item in items]
