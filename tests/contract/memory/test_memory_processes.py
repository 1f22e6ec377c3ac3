"""Several processes on one database: one record a key, all of a batch or nothing, no deadlock."""

import multiprocessing
import os
import random
import signal
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from support.memories import Backend, contents, output
from support.polling import eventually

from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore
from ditto_tasks.memory.stores.sql import SqlMemoryStore

STORES = ("sqlite", "postgresql", "mariadb")  # a local Qdrant has one process
# children come from a server that has imported what takes long, and has none of this process's connections
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", SqlMemoryStore.__module__, QdrantMemoryStore.__module__, "psycopg"])
WRITERS = 4
ROUNDS = 15
BATCH = 60


def write_same_key(backend: Backend, writer: int) -> list[tuple[str, str]]:
    """Write one key after another, now with the others' content and now not; (status, id or code)."""
    results = []
    with backend.open() as store:
        nodes = MemoryNodes(store)
        for number in range(ROUNDS):
            content = "same" if number % 2 else f"writer {writer}"
            result = nodes.write({"memories": [{"key": f"k{number}", "content": content}]})
            known = result.output[0]["id"] if result.error is None else result.error.code
            results.append((result.status, known))
    return results


def test_concurrent_writers_of_one_key(backend: Backend) -> None:
    """Of writers of one key one creates the record; others get that record or CONFLICT."""
    with ProcessPoolExecutor(WRITERS, mp_context=FORKS) as pool:
        results = list(pool.map(partial(write_same_key, backend), range(WRITERS)))
    with backend.open() as store:
        stored = {item["key"]: item["id"] for item in output(MemoryNodes(store).query({}))["items"]}
    assert len(stored) == ROUNDS
    for number in range(ROUNDS):
        outcomes = [result[number] for result in results]
        winners = [known for status, known in outcomes if status == "success"]
        assert set(winners) == {stored[f"k{number}"]}
        assert len(winners) == (WRITERS if number % 2 else 1)
        assert {known for status, known in outcomes if status == "failed"} <= {"CONFLICT"}


def write_shuffled_batches(backend: Backend, writer: int) -> list[str]:
    """Write, update and delete the same keys as the others do, each time in another order."""
    shuffle = random.Random(writer)  # noqa: S311 - an order, not a secret
    failures = []
    with backend.open() as store:
        nodes = MemoryNodes(store)
        for _ in range(ROUNDS):
            keys = shuffle.sample([f"k{number}" for number in range(BATCH)], BATCH)
            written = nodes.write({"memories": [{"key": key, "content": key} for key in keys]})
            found = nodes.get({"keys": keys}).output
            some = shuffle.sample(found, min(20, len(found)))
            patches = [{"id": item["id"], "content": item["content"]} for item in some]
            updated = nodes.update({"memories": patches})
            deleted = nodes.delete({"ids": [item["id"] for item in some[:5]]})
            failures += [r.error.code for r in (written, updated, deleted) if r.error is not None]
    return failures


def test_batches_in_any_order_do_not_deadlock(backend: Backend) -> None:
    """Batches that touch the same records in another order wait for each other and don't fail."""
    with ProcessPoolExecutor(WRITERS, mp_context=FORKS) as pool:
        failures = [
            code
            for codes in pool.map(partial(write_shuffled_batches, backend), range(WRITERS))
            for code in codes
        ]
    permitted = {"NOT_FOUND"}  # another one deleted it in between
    if backend.kind == "mariadb":
        permitted.add("MEMORY_BACKEND_ERROR")  # InnoDB locks gaps, so it may undo one as a deadlock's victim
    assert set(failures) <= permitted


def deliver(backend: Backend, _: int) -> list[str]:
    """Write the same operations as the others do; the ids answered."""
    with backend.open() as store:
        nodes = MemoryNodes(store)
        results = [
            nodes.write({"memories": [{"content": number}]}, operation_id=f"op{number}")
            for number in range(ROUNDS)
        ]
    return [output(result)[0]["id"] for result in results]


def test_operations_delivered_twice_at_once(backend: Backend) -> None:
    """Deliveries of one operation at the same time write one record, and all answer it."""
    with ProcessPoolExecutor(WRITERS, mp_context=FORKS) as pool:
        answers = list(pool.map(partial(deliver, backend), range(WRITERS)))
    assert all(answer == answers[0] for answer in answers)
    with backend.open() as store:
        assert contents(MemoryNodes(store).query({})) == list(range(ROUNDS))


def write_batches_for_ever(backend: Backend) -> None:
    """Write one batch after another until killed; each record knows its batch."""
    with backend.open() as store:
        nodes = MemoryNodes(store)
        for batch in range(sys.maxsize):
            write_batch(nodes, batch)


def write_batch(nodes: MemoryNodes, batch: int) -> None:
    """Deliver the WRITE of a batch, perhaps again."""
    drafts = [{"content": f"text {n}", "metadata": {"batch": batch}} for n in range(BATCH)]
    output(nodes.write({"memories": drafts}, operation_id=f"batch {batch}"))


def batch_sizes(nodes: MemoryNodes) -> dict[int, int]:
    """How many records there are of each batch."""
    items = output(nodes.query({"limit": 10_000}))["items"]
    return dict(Counter(item["metadata"]["batch"] for item in items))


@pytest.mark.parametrize("attempt", range(3))
def test_killed_in_a_batch(backend: Backend, attempt: int) -> None:
    """A writer killed at any moment leaves whole batches, each findable; repeated, each is there once."""
    writer = FORKS.Process(target=write_batches_for_ever, args=(backend,), daemon=True)
    writer.start()
    with backend.open() as store:
        nodes = MemoryNodes(store)
        eventually(lambda: len(contents(nodes.query({"limit": 10_000}))) > BATCH * (attempt + 2), 60)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join(10)
        sizes = batch_sizes(nodes)
        assert set(sizes.values()) == {BATCH}
        last = {"query": "text 7", "filter": {"metadata": {"batch": max(sizes)}}}
        assert contents(nodes.search(last))[0] == "text 7"
        again = range(max(sizes) + 2)  # the one at work is committed or not: only its records tell
        for batch in again:
            write_batch(nodes, batch)
        assert batch_sizes(nodes) == dict.fromkeys(again, BATCH)
