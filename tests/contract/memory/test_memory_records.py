"""GET, WRITE, UPDATE and DELETE, the same over every store."""

import pytest
from support.memories import code, contents, output, remember

from ditto_tasks.memory import MemoryNodes


def test_get_orders_ids_then_keys(nodes: MemoryNodes) -> None:
    """GET answers the ids' order, then the keys', each record once, and leaves out what is missing."""
    first, second = remember(nodes, "first", "second")
    (keyed,) = remember(nodes, "keyed", key="k")
    asked = {"ids": [second, "gone", keyed, first, second], "keys": ["k", "other"]}
    assert contents(nodes.get(asked)) == ["second", "keyed", "first"]
    assert contents(nodes.get({"keys": ["k"], "ids": []})) == ["keyed"]


def test_written_records_are_complete(nodes: MemoryNodes) -> None:
    """WRITE answers one record a draft in the same order, with id, key, content and metadata only."""
    drafts = [{"content": None}, {"key": "k", "content": [1], "metadata": {}}, {"content": "c"}]
    items = output(nodes.write({"memories": drafts}))
    assert [{name: item[name] for name in item if name != "id"} for item in items] == drafts
    assert output(nodes.get({"ids": [item["id"] for item in items]})) == items


def test_same_key_and_content_is_one_record(nodes: MemoryNodes) -> None:
    """Writing a key again with the same content, its object keys in any order, gives the first record."""
    draft = {"key": "k", "content": {"a": 1, "b": [2.0]}, "metadata": {"x": 1, "y": 2}}
    again = {"key": "k", "content": {"b": [2], "a": 1}, "metadata": {"y": 2, "x": 1}}
    first = output(nodes.write({"memories": [draft]}))
    assert output(nodes.write({"memories": [again, draft]})) == first * 2


@pytest.mark.parametrize(
    "other",
    [
        {"content": "other"},
        {"content": 1},
        {"content": "c", "metadata": {"a": 2}},
        {"content": "c", "metadata": {"a": True}},
        {"content": "c"},
    ],
)
def test_same_key_and_other_content_conflicts(nodes: MemoryNodes, other: dict[str, object]) -> None:
    """Other content or metadata under a key is a CONFLICT, and nothing of the batch is written."""
    original = {"key": "k", "content": "c", "metadata": {"a": 1}}
    output(nodes.write({"memories": [original]}))
    assert code(nodes.write({"memories": [{"content": "new"}, {"key": "k", **other}]})) == "CONFLICT"
    assert contents(nodes.query({})) == ["c"]


def test_two_drafts_of_one_key_conflict(nodes: MemoryNodes) -> None:
    """Two drafts of one batch with one key and other content are a CONFLICT; nothing is written."""
    drafts = [{"key": "k", "content": 2**70}, {"key": "k", "content": 2**70 + 1}]
    assert code(nodes.write({"memories": drafts})) == "CONFLICT"
    assert contents(nodes.query({})) == []


def test_update_replaces_present_fields(nodes: MemoryNodes) -> None:
    """UPDATE replaces what is present, metadata as a whole; {} clears it and null is content."""
    (one,) = remember(nodes, "one", key="k", metadata={"a": 1, "b": 2})
    (two,) = remember(nodes, "two", metadata={"a": 1})
    patches = [{"id": two, "content": None}, {"id": one, "metadata": {"c": 3}}]
    updated = output(nodes.update({"memories": patches}))
    assert updated == [
        {"id": two, "content": None, "metadata": {"a": 1}},
        {"id": one, "key": "k", "content": "one", "metadata": {"c": 3}},
    ]
    assert output(nodes.get({"ids": [two, one]})) == updated
    cleared = output(nodes.update({"memories": [{"id": one, "metadata": {}}]}))
    assert cleared == [{"id": one, "key": "k", "content": "one", "metadata": {}}]


def test_update_of_a_missing_id_changes_nothing(nodes: MemoryNodes) -> None:
    """One missing id is NOT_FOUND for the whole call, and no other record is changed."""
    (one,) = remember(nodes, "one")
    patches = [{"id": one, "content": "changed"}, {"id": "gone", "content": "x"}]
    assert code(nodes.update({"memories": patches})) == "NOT_FOUND"
    assert contents(nodes.query({})) == ["one"]


def test_delete_answers_what_it_removed(nodes: MemoryNodes) -> None:
    """DELETE answers each removed id once in the order asked; repeating it answers none."""
    one, two, three = remember(nodes, "one", "two", "three")
    assert output(nodes.delete({"ids": [three, "gone", one, three]})) == {"deleted": [three, one]}
    assert output(nodes.delete({"ids": [three, one]})) == {"deleted": []}
    assert contents(nodes.query({})) == ["two"]
    assert two == output(nodes.query({}))["items"][0]["id"]


def test_a_deleted_key_is_free(nodes: MemoryNodes) -> None:
    """After DELETE the same key takes other content."""
    (one,) = remember(nodes, "one", key="k")
    output(nodes.delete({"ids": [one]}))
    remember(nodes, "two", key="k")
    assert contents(nodes.query({})) == ["two"]


def test_batches_of_thousands_work(nodes: MemoryNodes) -> None:
    """More records than a database takes parameters for one statement are written, read and deleted."""
    ids = remember(nodes, *range(1_201))
    assert contents(nodes.get({"ids": ids})) == list(range(1_201))
    assert output(nodes.delete({"ids": ids})) == {"deleted": ids}


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "k" * 5_000])
def test_names_that_no_database_keeps(nodes: MemoryNodes, name: str) -> None:
    """A key with NUL, a lone surrogate or of endless length is refused by WRITE and missing to all else."""
    assert code(nodes.write({"memories": [{"key": name, "content": 1}]})) == "INVALID_INPUT"
    assert output(nodes.get({"keys": [name], "ids": [name]})) == []
    assert output(nodes.delete({"ids": [name]})) == {"deleted": []}
    assert contents(nodes.query({"filter": {"key": name}})) == []
    assert code(nodes.update({"memories": [{"id": name, "content": 1}]})) == "NOT_FOUND"
