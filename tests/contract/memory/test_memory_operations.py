"""WRITE by operation id: a repeat answers the same records and writes nothing."""

from support.memories import Backend, code, contents, output, remember

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonObject
from ditto_tasks.memory import MemoryNodes, ScopedMemory
from ditto_tasks.memory.records import OPERATION_KEEP_MS
from ditto_tasks.models import NodeResult

DRAFTS: JsonObject = {"memories": [{"content": "one"}, {"key": "k", "content": {"a": 1, "b": 2}}]}
OTHER: JsonObject = {"memories": [{"key": "other", "content": "other"}]}
SAME = {"memories": [{"content": "one"}, {"content": {"b": 2, "a": 1}, "key": "k"}]}


def test_a_repeat_answers_the_same_records(nodes: MemoryNodes) -> None:
    """The same operation id and input again gives the same records, and there are no others."""
    first = output(nodes.write(DRAFTS, operation_id="op"))
    assert output(nodes.write(SAME, operation_id="op")) == first
    assert len(output(nodes.query({}))["items"]) == 2


def test_a_repeat_after_changes_still_answers_what_was_written(nodes: MemoryNodes) -> None:
    """Later updates and deletes don't change what a repeated WRITE answers, and it revives nothing."""
    first = output(nodes.write(DRAFTS, operation_id="op"))
    output(nodes.delete({"ids": [first[0]["id"]]}))
    output(nodes.update({"memories": [{"id": first[1]["id"], "content": "new"}]}))
    assert output(nodes.write(DRAFTS, operation_id="op")) == first
    assert contents(nodes.query({})) == ["new"]


def test_a_cancelled_repeat_answers_what_was_written(nodes: MemoryNodes) -> None:
    """A WRITE that is to stop tells of its records if it has made them, of the cancel if it has not."""
    token = CancelToken()
    token.cancel()
    first = output(nodes.write(DRAFTS, operation_id="op"))

    def cancelled(operation_id: str, drafts: JsonObject = DRAFTS) -> NodeResult:
        return nodes.execute("MEMORY.WRITE", drafts, operation_id=operation_id, token=token)

    assert output(cancelled("op")) == first
    confined = MemoryNodes(ScopedMemory(nodes.store, "mine"))
    own = output(confined.write(DRAFTS, operation_id="op"))
    again = confined.execute("MEMORY.WRITE", DRAFTS, operation_id="op", token=token)
    assert output(again) == own != first
    assert code(cancelled("op", OTHER)) == "CONFLICT"
    assert cancelled("new").status == "cancelled"
    assert len(output(nodes.query({}))["items"]) == 2


def test_another_input_is_a_conflict(nodes: MemoryNodes) -> None:
    """The same operation id with other drafts is a CONFLICT and writes nothing."""
    output(nodes.write(DRAFTS, operation_id="op"))
    assert code(nodes.write({"memories": [{"content": "two"}]}, operation_id="op")) == "CONFLICT"
    assert len(output(nodes.query({}))["items"]) == 2


def test_other_operations_write_again(nodes: MemoryNodes) -> None:
    """Without a key, another operation id or none writes new records."""
    drafts = {"memories": [{"content": "one"}]}
    for operation_id in ("op", "op2", None, None):
        output(nodes.write(drafts, operation_id=operation_id))
    assert contents(nodes.query({})) == ["one"] * 4


def test_a_refused_write_leaves_its_operation_free(nodes: MemoryNodes) -> None:
    """An operation that ended in CONFLICT was not recorded: it can be written later."""
    (old,) = remember(nodes, "old", key="k")
    drafts = {"memories": [{"key": "k", "content": "new"}]}
    assert code(nodes.write(drafts, operation_id="op")) == "CONFLICT"
    output(nodes.delete({"ids": [old]}))
    assert output(nodes.write(drafts, operation_id="op"))[0]["content"] == "new"


def test_any_text_is_an_operation_id(nodes: MemoryNodes) -> None:
    """Ids of any length and with any character are told apart."""
    drafts = {"memories": [{"content": "one"}]}
    ids = ["x" * 500, "x" * 501, "\0", "\ud800", "é"]
    first = [output(nodes.write(drafts, operation_id=operation_id)) for operation_id in ids]
    assert [output(nodes.write(drafts, operation_id=operation_id)) for operation_id in ids] == first
    assert len(output(nodes.query({}))["items"]) == len(ids)


def test_old_operations_are_forgotten(backend: Backend) -> None:
    """An operation is kept for a week and removed by a later write."""
    now = 1
    with backend.open(clock_ms=lambda: now) as store:
        nodes = MemoryNodes(store)
        output(nodes.write(DRAFTS, operation_id="op"))
        now += OPERATION_KEEP_MS
        output(nodes.write({"memories": [{"content": "x"}]}, operation_id="later"))
        assert code(nodes.write(OTHER, operation_id="op")) == "CONFLICT"
        now += 1
        output(nodes.write({"memories": [{"content": "y"}]}, operation_id="latest"))
        assert output(nodes.write(OTHER, operation_id="op"))[0]["content"] == "other"
