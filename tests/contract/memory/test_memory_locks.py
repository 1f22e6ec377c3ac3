"""The order in which transactions take their locks: two that touch the same records never wait in a ring."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import Executable, select
from support.memories import Backend, output
from support.polling import eventually
from support.sql_locks import holding, is_free, keyed_record, learn, tables_of, waiting

from ditto_tasks.memory import MemoryNodes
from ditto_tasks.models import NodeResult

STORES = ("postgresql", "mariadb")  # SQLite has one writer at a time
WAIT_S = 20.0


@dataclass(frozen=True)
class Pair:
    """Two records. The higher id was written first, and a small table that is known is read as it lies."""

    backend: Backend
    nodes: MemoryNodes
    low: str
    high: str

    def lock(self, of_id: str) -> Executable:
        """The statement that locks a record."""
        ids = tables_of(self.backend).memories.c.id
        return select(ids).where(ids == of_id).with_for_update()


@pytest.fixture
def pair(backend: Backend) -> Iterator[Pair]:
    """A store with two records."""
    ids = []
    for now_ms in (2_000, 1_000):
        with backend.open(clock_ms=lambda now=now_ms: now) as store:
            ids += [item["id"] for item in output(MemoryNodes(store).write({"memories": [{"content": 1}]}))]
    high, low = ids
    assert low < high
    learn(backend)
    with backend.open() as store:
        yield Pair(backend, MemoryNodes(store), low, high)


def update(pair: Pair, ids: list[str]) -> NodeResult:
    """UPDATE in the order given."""
    return pair.nodes.update({"memories": [{"id": each, "content": ids} for each in ids]})


def delete(pair: Pair, ids: list[str]) -> NodeResult:
    """DELETE in the order given."""
    return pair.nodes.delete({"ids": ids})


@pytest.mark.parametrize("change", [update, delete])
def test_records_are_locked_in_the_order_of_ids(
    pair: Pair, change: Callable[[Pair, list[str]], NodeResult]
) -> None:
    """While the lowest id is locked, whoever wants both waits for it and holds no other; nobody fails."""
    results: list[NodeResult] = []
    orders = [pair.low, pair.high], [pair.high, pair.low]
    threads = [
        threading.Thread(target=lambda ids=ids: results.append(change(pair, ids)), daemon=True)
        for ids in orders
    ]
    with holding(pair.backend, pair.lock(pair.low)):
        for number, thread in enumerate(threads, start=1):
            thread.start()
            eventually(waiting(pair.backend, number), WAIT_S)
        assert is_free(pair.backend, pair.lock(pair.high))
    for thread in threads:
        thread.join(WAIT_S)
    assert [result.status for result in results] == ["success"] * 2


def test_new_keys_are_claimed_in_their_order(pair: Pair) -> None:
    """A WRITE that waits for a key that another writer has not committed holds no key after it."""
    results: list[NodeResult] = []
    drafts = {"memories": [{"key": key, "content": 1} for key in ("kb", "ka")]}
    writer = threading.Thread(target=lambda: results.append(pair.nodes.write(drafts)), daemon=True)
    with holding(pair.backend, keyed_record(pair.backend, "x", "ka")):
        writer.start()
        eventually(waiting(pair.backend, 1), WAIT_S)
        assert is_free(pair.backend, keyed_record(pair.backend, "y", "kb"))
    writer.join(WAIT_S)
    assert [result.status for result in results] == ["success"]
