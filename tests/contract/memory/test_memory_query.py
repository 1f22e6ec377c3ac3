"""QUERY: filters, order and cursors, the same over every store."""

import base64
import json

import pytest
from support.memories import Backend, code, contents, output, remember

from ditto_tasks.memory import MemoryNodes

OLD, NEW = 1_000, 2_000


def pages(nodes: MemoryNodes, **asked: object) -> list[list[object]]:
    """The contents of every page."""
    result = nodes.query(asked)
    found = [contents(result)]
    while "nextCursor" in output(result):
        result = nodes.query({**asked, "cursor": output(result)["nextCursor"]})
        found.append(contents(result))
    return found


def test_pages_cover_everything_once(nodes: MemoryNodes) -> None:
    """Pages in the default order hold every record once; the last page has no cursor."""
    ids = remember(nodes, *range(7))
    assert ids == sorted(ids)
    assert pages(nodes, limit=3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert pages(nodes, limit=7) == [[0, 1, 2, 3, 4, 5, 6]]


def test_the_id_breaks_ties_in_one_direction(nodes: MemoryNodes) -> None:
    """Records equal in the order's fields come in the order of ids, also when it is descending."""
    remember(nodes, *range(5))
    by_time = [{"field": "createdAt", "direction": "desc"}]
    assert pages(nodes, limit=2, orderBy=by_time) == [[0, 1], [2, 3], [4]]


def test_orders(backend: Backend) -> None:
    """Records are ordered by id, key, creation and change; without a key comes first."""
    now = OLD
    with backend.open(clock_ms=lambda: now) as store:
        nodes = MemoryNodes(store)
        (b,) = remember(nodes, "b", key="b")
        now = NEW
        remember(nodes, "A", key="A")
        remember(nodes, "ä", key="ä")
        remember(nodes, "none")
        now += 1
        output(nodes.update({"memories": [{"id": b, "metadata": {}}]}))

        def order(field: str, direction: str = "asc") -> list[object]:
            return contents(nodes.query({"orderBy": [{"field": field, "direction": direction}]}))

        assert order("key") == ["none", "A", "b", "ä"]
        assert order("key", "desc") == ["ä", "b", "A", "none"]
        assert order("createdAt")[0] == "b"
        assert order("updatedAt", "desc")[0] == "b"
        assert order("id", "desc") == order("id")[::-1]


def test_cursors_are_stable(nodes: MemoryNodes) -> None:
    """Inserts and deletes between pages neither repeat nor hide any other record."""
    ids = remember(nodes, *range(6))
    first = output(nodes.query({"limit": 2}))
    output(nodes.delete({"ids": [ids[0], ids[1], ids[3]]}))
    remember(nodes, "late")
    rest = nodes.query({"limit": 10, "cursor": first["nextCursor"]})
    assert contents(rest) == [2, 4, 5, "late"]


def test_cursors_belong_to_their_query(nodes: MemoryNodes) -> None:
    """A cursor is refused with another filter or order, and taken with another limit."""
    remember(nodes, *range(3), metadata={"kind": "a"})
    cursor = output(nodes.query({"limit": 1, "filter": {"kind": "a"}}))["nextCursor"]
    assert code(nodes.query({"cursor": cursor})) == "INVALID_INPUT"
    assert code(nodes.query({"cursor": cursor, "filter": {"kind": "b"}})) == "INVALID_INPUT"
    ordered = {"cursor": cursor, "filter": {"kind": "a"}, "orderBy": [{"field": "key"}]}
    assert code(nodes.query(ordered)) == "INVALID_INPUT"
    assert contents(nodes.query({"cursor": cursor, "filter": {"kind": "a"}, "limit": 9})) == [1, 2]


@pytest.mark.parametrize("cursor", ["x", "é", "AAAA", "W10", "W251bGxd", "\0", "a" * 100_000])
def test_made_up_cursors_are_refused(nodes: MemoryNodes, cursor: str) -> None:
    """A cursor that QUERY did not give is INVALID_INPUT."""
    assert code(nodes.query({"cursor": cursor})) == "INVALID_INPUT"


def test_forged_positions_are_refused(nodes: MemoryNodes) -> None:
    """A cursor whose position holds something else than text and integers is INVALID_INPUT."""
    remember(nodes, 1, 2)
    cursor = output(nodes.query({"limit": 1}))["nextCursor"]
    digest, _ = json.loads(base64.urlsafe_b64decode(cursor + "==="))
    forged = base64.urlsafe_b64encode(json.dumps([digest, {"id": 1}]).encode()).decode().rstrip("=")
    assert code(nodes.query({"cursor": forged})) == "INVALID_INPUT"


FILTERS = [
    ({"key": "k1"}, [1]),
    ({"kind": "note"}, [1, 2]),
    ({"kind": "note", "key": "k2"}, [2]),
    ({"metadata": {"n": 1}}, [1]),
    ({"metadata": {"n": 1.0}}, [1]),
    ({"metadata": {"n": True}}, [3]),
    ({"metadata": {"n": "1"}}, [4]),
    ({"metadata": {"n": None}}, [5]),
    ({"metadata": {"n": {"gt": 1}}}, [2]),
    ({"metadata": {"n": {"gte": 1, "lt": 10}}}, [1]),
    ({"metadata": {"n": {"gt": -1e300, "lte": 1e300}}}, [1, 2]),
    ({"metadata": {"n": {"gte": "", "lt": "2"}}}, [4]),
    ({"metadata": {"deep.path": "x"}}, [2]),
    ({"metadata": {"tags": ["a", "b"]}}, [3]),
    ({"metadata": {"tags": "a"}}, []),
    ({"metadata": {"deep.path": "x", "kind": "note"}}, [2]),
    ({"metadata": {"%": "_"}}, [6]),
    ({"metadata": {"_": "%"}}, []),
    ({"metadata": {"nul": "\0\ud800"}}, [6]),
    ({"metadata": {"nul": "\\x000\\ud800"}}, []),
    ({"metadata": {"long": "x" * 999 + "y"}}, [6]),
    ({"metadata": {"long": "x" * 999 + "z"}}, []),
    ({"namespace": ""}, [1, 2, 3, 4, 5, 6]),
    ({"namespace": "other"}, []),
    ({}, [1, 2, 3, 4, 5, 6]),
]
METADATA = [
    {"kind": "note", "n": 1},
    {"kind": "note", "n": 10, "deep": {"path": "x"}},
    {"n": True, "tags": ["a", "b"]},
    {"n": "1"},
    {"n": None},
    {"%": "_", "nul": "\0\ud800", "long": "x" * 999 + "y"},
]


@pytest.mark.parametrize(("wanted", "expected"), FILTERS, ids=lambda value: ascii(value)[:60])
def test_filters(nodes: MemoryNodes, wanted: dict[str, object], expected: list[int]) -> None:
    """Terms are joined by AND, compare values with their types, and take every character literally."""
    drafts = [{"key": f"k{n}", "content": n, "metadata": m} for n, m in enumerate(METADATA, 1)]
    output(nodes.write({"memories": drafts}))
    assert sorted(contents(nodes.query({"filter": wanted}))) == expected


@pytest.mark.parametrize(
    "wanted",
    [
        {"ids": ["a"]},
        {"key": 1},
        {"kind": ["note"]},
        {"namespace": {"gt": "a"}},
        {"metadata": "x"},
        {"metadata": {"n": {}}},
        {"metadata": {"n": {"like": "a"}}},
        {"metadata": {"n": {"gt": 1, "ne": 2}}},
        {"metadata": {"n": {"gt": None}}},
        {"metadata": {"n": {"gt": True}}},
        {"metadata": {"n": {"gt": [1]}}},
    ],
)
def test_unknown_terms_are_unsupported(nodes: MemoryNodes, wanted: dict[str, object]) -> None:
    """A term that the store doesn't know is UNSUPPORTED_FILTER in QUERY and SEARCH, never ignored."""
    assert code(nodes.query({"filter": wanted})) == "UNSUPPORTED_FILTER"
    assert code(nodes.search({"query": "x", "filter": wanted})) == "UNSUPPORTED_FILTER"


@pytest.mark.parametrize("field", ["content", "metadata.kind", "words", "created_at", "id; --"])
def test_unknown_order_fields_are_unsupported(nodes: MemoryNodes, field: str) -> None:
    """A field that the store can't order by is UNSUPPORTED_FILTER."""
    assert code(nodes.query({"orderBy": [{"field": field}]})) == "UNSUPPORTED_FILTER"
