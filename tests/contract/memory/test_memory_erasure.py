"""Erasure of memories: what begins with the name goes, literally, and nothing of it comes back late."""

import threading

import pytest
from sqlalchemy import insert
from support.memories import Backend, Store, code, output, remember
from support.polling import eventually
from support.sql_locks import holding, tables_of, waiting

from ditto_tasks.memory import MemoryNodes, ScopedMemory
from ditto_tasks.memory.erasure import Subject

SUBJECTS = [
    *(Subject("session", name) for name in ("a", "a/b", "a:b", "a:b/c", "%", "_", "*", "A", "a ", "é")),
    *(Subject("tenant", name) for name in ("a", "A", "a_", "a.b", "-")),
]
NAMESPACES = [
    "a",
    "ab",
    "a/b",
    "a:b",
    "a:b/c",
    "a:",
    "A",
    "A:s",
    "%",
    "_",
    "*",
    "a ",
    "a_:s",
    "a.b:s",
    "axb:s",
]
KEYS = [
    *("a/1", "ab/1", "a/b/1", "a/bc/1", "a:b/1", "a:b/c/1", "a:bc/1", "A/1", "%/1", "_/1", "*/1", "-:s/1"),
    *("a", "a/", "/a", "/1", "x/a/1", "x:a/1", "a /1", "a b:s/1", "é/1", "a_:s/1", "ax:s/1", "a.b:s/1"),
]
PLACES = [(name, None) for name in NAMESPACES] + [("other", key) for key in KEYS] + [("", "a:b/2")]
Place = tuple[str, str | None]


def is_theirs(subject: Subject, place: Place) -> bool:
    """The rule in words of its own: a literal beginning."""
    namespace, key = place[0], place[1] or ""
    if subject.kind == "session":
        return namespace == subject.name or key.startswith(subject.name + "/")
    begins = subject.name + ":"
    return namespace == subject.name or namespace.startswith(begins) or key.startswith(begins)


def nodes_of(store: Store, place: Place) -> MemoryNodes:
    """The nodes of a place's namespace."""
    return MemoryNodes(ScopedMemory(store, place[0]) if place[0] else store)


def draft_of(place: Place) -> dict[str, object]:
    """A WRITE of one record at a place."""
    key = {} if place[1] is None else {"key": place[1]}
    return {"memories": [{"content": "text", "metadata": {"kind": "x"}, **key}]}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: f"{each.kind}={each.name}")
def test_what_begins_with_the_name_goes_and_does_not_come_back(store: Store, subject: Subject) -> None:
    """Exactly the records under the name are gone, and exactly those may not be written again."""
    for place in PLACES:
        output(nodes_of(store, place).write(draft_of(place), operation_id=f"first {place[1]}"))
    theirs = {place for place in PLACES if is_theirs(subject, place)}
    assert store.remaining(subject)["memories"] == len(theirs)
    store.erase(subject)
    assert not any(store.remaining(subject).values())
    kept = {place for place in PLACES if is_kept(store, place)}
    assert kept == set(PLACES) - theirs
    late = {place: nodes_of(store, place).write(draft_of(place)) for place in PLACES}
    assert {place for place, result in late.items() if result.status == "failed"} == theirs
    assert {code(late[place]) for place in theirs} <= {"ERASED"}


def is_kept(store: Store, place: Place) -> bool:
    """Whether the record of a place is there."""
    if place[1] is None:
        return bool(output(nodes_of(store, place).query({}))["items"])
    return bool(output(nodes_of(store, place).get({"keys": [place[1]]})))


def test_many_keys_are_looked_up_at_once(store: Store) -> None:
    """A batch whose keys could be of ten thousand sessions is written, and refused for any one of them."""
    drafts = [{"content": n, "key": "/".join([str(n), *"abcdefghi", "1"])} for n in range(1_000)]
    assert len(output(MemoryNodes(store).write({"memories": drafts}))) == 1_000
    store.erase(Subject("session", "999/a/b/c"))
    assert code(MemoryNodes(store).write({"memories": drafts})) == "ERASED"


@pytest.mark.parametrize("backend", ["postgresql", "mariadb"], indirect=True)
def test_a_write_at_work_leaves_nothing_behind(backend: Backend) -> None:
    """A WRITE that saw no tombstone and ends after an erasure began is found by it; the next is refused."""
    subject, results = Subject("session", "a"), []
    with backend.open() as store, backend.open() as other:
        nodes = MemoryNodes(ScopedMemory(store, "a"))
        drafts = {"memories": [{"content": "late", "key": "k"}]}
        writer = threading.Thread(target=lambda: results.append(nodes.write(drafts, operation_id="op")))
        eraser = threading.Thread(target=lambda: other.erase(subject))
        claim = {"namespace": "a", "operation_id": "op", "input_hash": "h", "ids": "[]", "created_at": 1}
        with holding(backend, insert(tables_of(backend).operations).values(claim)):
            writer.start()
            eventually(waiting(backend, 1), 20)
            eraser.start()
            eventually(lambda: waiting(backend, 2)() or not eraser.is_alive(), 20)
        writer.join(20)
        eraser.join(20)
        assert [result.status for result in results] == ["success"]
        assert not any(store.remaining(subject).values())
        assert code(nodes.write(drafts, operation_id="op")) == "ERASED"


def test_a_batch_of_two_owners_is_refused_as_a_whole(store: Store) -> None:
    """A WRITE with one draft of an erased session writes none of its drafts."""
    store.erase(Subject("session", "a"))
    nodes = MemoryNodes(store)
    drafts = [{"content": 1, "key": "b/1"}, {"content": 2, "key": "a/1"}]
    assert code(nodes.write({"memories": drafts})) == "ERASED"
    assert output(nodes.get({"keys": ["b/1", "a/1"]})) == []
    remember(nodes, 1, key="b/1")
