"""Namespaces are apart: no operation of one sees or changes the records of another."""

import pytest
from support.memories import Backend, Store, code, contents, output, remember

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory import MemoryNodes, ScopedMemory

NAMES = [
    "a",
    "ab",
    "A",
    "a:",
    "*",
    "%",
    "_",
    "a-b",
    "a_b",
    "a%b",
    "а",
    "ａ",
    "a ",
    " a",
    "a\n",
    "'",
    "ns\u200b",
]


@pytest.fixture
def tenants(store: Store) -> dict[str, MemoryNodes]:
    """One MemoryNodes a namespace, each with one record of the same key and text."""
    scoped = {name: MemoryNodes(ScopedMemory(store, name)) for name in NAMES}
    for name, nodes in scoped.items():
        remember(nodes, f"common text {name!a}", key="k", metadata={"kind": "note"})
    return scoped


def test_each_sees_its_own_record_only(backend: Backend, tenants: dict[str, MemoryNodes]) -> None:
    """GET, QUERY and SEARCH by each strategy of a namespace give its own record and no other."""
    for name, nodes in tenants.items():
        own = [f"common text {name!a}"]
        assert contents(nodes.get({"keys": ["k"]})) == own
        assert contents(nodes.query({})) == own
        assert contents(nodes.query({"filter": {"kind": "note"}})) == own
        assert contents(nodes.search({"query": "common"})) == own
        if backend.kind != "qdrant":
            assert contents(nodes.search({"query": "common text", "strategy": "substring"})) == own


def test_ids_of_others_are_as_if_absent(tenants: dict[str, MemoryNodes]) -> None:
    """GET, UPDATE and DELETE with another namespace's id behave as for an id that never was."""
    (theirs,) = output(tenants["ab"].get({"keys": ["k"]}))
    mine = tenants["a"]
    assert output(mine.get({"ids": [theirs["id"]]})) == []
    assert (
        mine.update({"memories": [{"id": theirs["id"], "content": "x"}]}).error
        == mine.update({"memories": [{"id": "never", "content": "x"}]}).error
    )
    assert output(mine.delete({"ids": [theirs["id"]]})) == {"deleted": []}
    assert output(tenants["ab"].get({"ids": [theirs["id"]]})) == [theirs]


def test_a_filter_does_not_lead_out(tenants: dict[str, MemoryNodes]) -> None:
    """A filter on another namespace finds nothing, on the own one the own record."""
    asked = {"filter": {"namespace": "ab"}}
    assert contents(tenants["a"].query(asked)) == []
    assert contents(tenants["a"].search({"query": "common", **asked})) == []
    assert contents(tenants["ab"].query(asked)) == ["common text 'ab'"]


def test_cursors_do_not_lead_out(store: Store) -> None:
    """A cursor of another namespace is refused."""
    one, two = (MemoryNodes(ScopedMemory(store, name)) for name in ("one", "two"))
    remember(one, 1, 2)
    remember(two, 3, 4)
    cursor = output(one.query({"limit": 1}))["nextCursor"]
    assert code(two.query({"cursor": cursor})) == "INVALID_INPUT"


def test_operations_are_apart(store: Store) -> None:
    """The same operation id in two namespaces is two operations."""
    one, two = (MemoryNodes(ScopedMemory(store, name)) for name in ("one", "two"))
    first = output(one.write({"memories": [{"content": "x"}]}, operation_id="op"))
    second = output(two.write({"memories": [{"content": "x"}]}, operation_id="op"))
    assert first[0]["id"] != second[0]["id"]


def test_the_default_namespace_is_one_of_many(store: Store, nodes: MemoryNodes) -> None:
    """A store that is not confined works in the default namespace, and in another only by filter."""
    scoped = MemoryNodes(ScopedMemory(store, "a"))
    remember(scoped, "theirs here", key="k")
    remember(nodes, "mine here", key="k")
    assert contents(nodes.query({})) == ["mine here"]
    assert contents(nodes.search({"query": "here"})) == ["mine here"]
    assert contents(nodes.search({"query": "here", "filter": {"namespace": "a"}})) == ["theirs here"]


def test_scores_do_not_depend_on_others(store: Store) -> None:
    """How many records others have, how long, and of which words, changes no score of a search."""
    one, two = (MemoryNodes(ScopedMemory(store, name)) for name in ("one", "two"))
    remember(one, "alpha beta", "beta gamma", "gamma delta", "delta", "epsilon", "zeta", "eta")
    before = output(one.search({"query": "alpha beta gamma"}))
    remember(two, *["beta beta alpha"] * 50, "long " * 1_000)
    after = output(one.search({"query": "alpha beta gamma"}))
    assert [found["memory"] for found in after] == [found["memory"] for found in before]
    # of a vector's score the last digits depend on how many are reckoned at once
    assert [found["score"] for found in after] == pytest.approx(
        [found["score"] for found in before], rel=1e-6
    )


@pytest.mark.parametrize("name", ["", "\0", "\ud800", "x" * 1_000])
def test_unusable_namespaces_are_refused(store: Store, name: str) -> None:
    """An empty namespace would be everybody's; one that no database keeps would be another's."""
    with pytest.raises(MemoryError, match="INVALID_INPUT"):
        ScopedMemory(store, name)
