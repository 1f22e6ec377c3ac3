"""The MEMORY nodes over stores made for one test: input checks, limits, answers checked, codes."""

from collections.abc import Sequence

import pytest
from support.memories import code, output

from ditto_tasks.errors import Cancelled, DittoError, MemoryError
from ditto_tasks.memory import MemoryItem, MemoryNodes, MemorySearchResult
from ditto_tasks.memory.models import MemoryDraft, MemoryPatch, Query, QueryPage, Search, WriteOperation
from ditto_tasks.models import CancelToken

SECRET = "postgresql://user:hunter2@host/db"
ONE = MemoryItem(id="1", key="k", content="c")


class Scripted:
    """A store that answers what it is told, and keeps what it was asked."""

    def __init__(self, answer: object = ()) -> None:
        self.answer = answer
        self.asked: list[object] = []

    def _give(self, *asked: object) -> object:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> object:
        return self._give(ids, keys)

    def query(self, query: Query) -> object:
        return self._give(query)

    def write(self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation | None) -> object:
        return self._give(drafts, operation)

    def update(self, patches: Sequence[MemoryPatch]) -> object:
        return self._give(patches)

    def delete(self, ids: Sequence[str]) -> object:
        return self._give(ids)


class Searching(Scripted):
    """A store that can search."""

    def search(self, search: Search) -> object:
        return self._give(search)


BAD_INPUTS = [
    ("MEMORY.GET", {}, ""),
    ("MEMORY.GET", {"ids": None}, ""),
    ("MEMORY.GET", {"ids": "a"}, "/ids"),
    ("MEMORY.GET", {"ids": [""]}, "/ids/0"),
    ("MEMORY.GET", {"ids": [1]}, "/ids/0"),
    ("MEMORY.GET", {"keys": ["a"], "more": 1}, "/more"),
    ("MEMORY.QUERY", {"limit": 0}, "/limit"),
    ("MEMORY.QUERY", {"limit": 10_001}, "/limit"),
    ("MEMORY.QUERY", {"limit": True}, "/limit"),
    ("MEMORY.QUERY", {"limit": 1.0}, "/limit"),
    ("MEMORY.QUERY", {"limit": "1"}, "/limit"),
    ("MEMORY.QUERY", {"cursor": ""}, "/cursor"),
    ("MEMORY.QUERY", {"filter": []}, "/filter"),
    ("MEMORY.QUERY", {"orderBy": [{"field": "id", "direction": "up"}]}, "/orderBy/0/direction"),
    ("MEMORY.QUERY", {"orderBy": [{}]}, "/orderBy/0/field"),
    ("MEMORY.SEARCH", {}, "/query"),
    ("MEMORY.SEARCH", {"query": float("nan")}, "/query"),
    ("MEMORY.SEARCH", {"query": "x", "limit": -1}, "/limit"),
    ("MEMORY.SEARCH", {"query": "x", "strategy": ""}, "/strategy"),
    ("MEMORY.SEARCH", {"query": "x", "options": 1}, "/options"),
    ("MEMORY.WRITE", {}, "/memories"),
    ("MEMORY.WRITE", {"memories": [{}]}, "/memories/0/content"),
    ("MEMORY.WRITE", {"memories": [{"content": 1, "id": "x"}]}, "/memories/0/id"),
    ("MEMORY.WRITE", {"memories": [{"content": 1, "key": ""}]}, "/memories/0/key"),
    ("MEMORY.WRITE", {"memories": [{"content": 1, "metadata": []}]}, "/memories/0/metadata"),
    ("MEMORY.WRITE", {"memories": [{"content": 10**400}]}, "/memories/0/content"),
    ("MEMORY.UPDATE", {"memories": [{"id": "1"}]}, "/memories/0"),
    ("MEMORY.UPDATE", {"memories": [{"id": "1", "key": "k", "content": 1}]}, "/memories/0/key"),
    ("MEMORY.UPDATE", {"memories": [{"content": 1}]}, "/memories/0/id"),
    ("MEMORY.UPDATE", {"memories": [{"id": "1", "content": 1}, {"id": "1", "content": 2}]}, ""),
    ("MEMORY.DELETE", {}, "/ids"),
    ("MEMORY.DELETE", {"ids": [None]}, "/ids/0"),
    ("MEMORY.DELETE", None, ""),
    ("MEMORY.DELETE", [], ""),
]


@pytest.mark.parametrize(("node", "given", "path"), BAD_INPUTS)
def test_bad_input_never_reaches_the_store(node: str, given: object, path: str) -> None:
    """Bad input is a failed result with INVALID_INPUT and the path, before the store is asked."""
    store = Searching()
    result = MemoryNodes(store).execute(node, given)
    assert code(result) == "INVALID_INPUT"
    assert result.error.message.startswith(f"{path or 'input'}: ")
    assert store.asked == []


@pytest.mark.parametrize(
    ("node", "given", "expected"),
    [
        ("MEMORY.GET", {"ids": []}, []),
        ("MEMORY.GET", {"ids": [], "keys": []}, []),
        ("MEMORY.WRITE", {"memories": []}, []),
        ("MEMORY.UPDATE", {"memories": []}, []),
        ("MEMORY.DELETE", {"ids": []}, {"deleted": []}),
    ],
)
def test_empty_batches_do_not_touch_the_store(node: str, given: dict[str, object], expected: object) -> None:
    """Nothing asked is nothing done, without asking the store."""
    store = Scripted(RuntimeError())
    assert output(MemoryNodes(store).execute(node, given)) == expected
    assert store.asked == []


def test_selectors_are_deduplicated() -> None:
    """GET and DELETE ask the store for each id and key once, in order."""
    store = Scripted([])
    MemoryNodes(store).get({"ids": ["b", "a", "b"], "keys": ["k", "k"]})
    MemoryNodes(store).delete({"ids": ["b", "a", "b"]})
    assert store.asked == [(("b", "a"), ("k",)), (("b", "a"),)]


def test_limits_of_requests_win_over_those_of_the_nodes() -> None:
    """A request's limit wins over the constructor's, and that over 100 and 10."""
    store = Searching([])
    plain, tuned = MemoryNodes(store), MemoryNodes(store, query_limit=7, search_limit=3)
    for nodes in (plain, tuned):
        nodes.search({"query": "x"})
        nodes.search({"query": "x", "limit": 5})
    assert [search.limit for (search,) in store.asked] == [10, 5, 3, 5]
    store.asked.clear()
    for nodes in (plain, tuned):
        nodes.query({})
        nodes.query({"limit": 5})
    assert [query.limit for (query,) in store.asked] == [100, 5, 7, 5]


@pytest.mark.parametrize("limit", [0, 10_001, True, 1.5, "1", None])
def test_default_limits_are_checked(limit: object) -> None:
    """A default limit outside 1..10000 is refused when the nodes are made."""
    with pytest.raises(MemoryError, match="INVALID_INPUT"):
        MemoryNodes(Scripted(), query_limit=limit)
    with pytest.raises(MemoryError, match="INVALID_INPUT"):
        MemoryNodes(Scripted(), search_limit=limit)


def test_without_search_the_rest_works() -> None:
    """A store without search answers SEARCH_UNAVAILABLE to SEARCH only."""
    nodes = MemoryNodes(Scripted([ONE]))
    assert code(nodes.search({"query": "x"})) == "SEARCH_UNAVAILABLE"
    assert output(nodes.get({"ids": ["1"]})) == [{"id": "1", "key": "k", "content": "c"}]


def test_an_explicit_search_provider_wins() -> None:
    """A search provider given to the nodes answers SEARCH in place of the store, and nothing else."""
    store, provider = Searching(), Searching([MemorySearchResult(memory=ONE, score=0.5)])
    nodes = MemoryNodes(store, search=provider)
    found = output(nodes.search({"query": [1.0, 2.0], "strategy": "vector", "options": {"a": 1}}))
    assert found == [{"memory": {"id": "1", "key": "k", "content": "c"}, "score": 0.5}]
    ((search,),) = provider.asked
    assert (search.query, search.strategy, search.options) == ([1.0, 2.0], "vector", {"a": 1})
    assert store.asked == []


TWO_DRAFTS = {"memories": [{"content": 1}, {"content": 2}]}
A, B = {"id": "a", "content": 1}, {"id": "b", "content": 2}
WRONG_ANSWERS = [
    ("MEMORY.GET", {"ids": ["a"]}, None),
    ("MEMORY.GET", {"ids": ["a"]}, [A, A]),
    ("MEMORY.GET", {"ids": ["a"]}, [A, B]),
    ("MEMORY.GET", {"ids": ["a"]}, [{"id": "a"}]),
    ("MEMORY.GET", {"ids": ["a"]}, [{"id": "a", "content": float("inf")}]),
    ("MEMORY.GET", {"ids": ["a"]}, [{"id": "a", "content": 1, "secret": 1}]),
    ("MEMORY.GET", {"keys": ["k"]}, [{"id": "a", "key": "other", "content": 1}]),
    ("MEMORY.QUERY", {}, [A]),
    ("MEMORY.QUERY", {}, {"items": [A, A]}),
    ("MEMORY.QUERY", {}, {"items": [A], "nextCursor": ""}),
    ("MEMORY.QUERY", {"limit": 1}, {"items": [A, B]}),
    ("MEMORY.SEARCH", {"query": "x"}, None),
    ("MEMORY.SEARCH", {"query": "x"}, [A]),
    ("MEMORY.SEARCH", {"query": "x"}, [{"memory": A, "score": float("nan")}]),
    ("MEMORY.SEARCH", {"query": "x"}, [{"memory": A, "score": "1"}]),
    ("MEMORY.SEARCH", {"query": "x"}, [{"memory": A, "score": True}]),
    ("MEMORY.SEARCH", {"query": "x"}, [{"memory": A}, {"memory": A}]),
    ("MEMORY.SEARCH", {"query": "x", "limit": 1}, [{"memory": A}, {"memory": B}]),
    ("MEMORY.WRITE", TWO_DRAFTS, [A]),
    ("MEMORY.WRITE", TWO_DRAFTS, [A, A]),
    ("MEMORY.WRITE", TWO_DRAFTS, [A, {**B, "key": "k"}]),
    ("MEMORY.WRITE", TWO_DRAFTS, None),
    ("MEMORY.UPDATE", {"memories": [A]}, []),
    ("MEMORY.UPDATE", {"memories": [A]}, [B]),
    ("MEMORY.DELETE", {"ids": ["a"]}, None),
    ("MEMORY.DELETE", {"ids": ["a"]}, ["b"]),
    ("MEMORY.DELETE", {"ids": ["a"]}, ["a", "a"]),
    ("MEMORY.DELETE", {"ids": ["a"]}, [1]),
]


@pytest.mark.parametrize(("node", "given", "answer"), WRONG_ANSWERS)
def test_wrong_answers_are_refused(node: str, given: dict[str, object], answer: object) -> None:
    """A store's answer of the wrong shape, count or identity is INVALID_BACKEND_OUTPUT."""
    assert code(MemoryNodes(Searching(answer)).execute(node, given)) == "INVALID_BACKEND_OUTPUT"


def test_right_answers_may_be_plain_json() -> None:
    """A store may answer dicts; keyed drafts of one key may share a record."""
    shared = {"id": "a", "key": "k", "content": 1}
    nodes = MemoryNodes(Searching([shared, shared]))
    drafts = [{"key": "k", "content": 1}] * 2
    assert output(nodes.write({"memories": drafts})) == [shared, shared]
    page = MemoryNodes(Scripted(QueryPage(items=(ONE,), next_cursor="c"))).query({})
    assert output(page) == {"items": [{"id": "1", "key": "k", "content": "c"}], "nextCursor": "c"}


@pytest.mark.parametrize("node", ["MEMORY.GET", "MEMORY.QUERY", "MEMORY.SEARCH", "MEMORY.WRITE"])
def test_unknown_errors_hide_their_text(node: str, caplog: pytest.LogCaptureFixture) -> None:
    """An exception of the store is MEMORY_BACKEND_ERROR, and its text appears in no result and no log."""
    given = {
        "MEMORY.GET": {"ids": ["a"]},
        "MEMORY.QUERY": {},
        "MEMORY.SEARCH": {"query": "x"},
        "MEMORY.WRITE": TWO_DRAFTS,
    }[node]
    result = MemoryNodes(Searching(RuntimeError(SECRET))).execute(node, given)
    assert code(result) == "MEMORY_BACKEND_ERROR"
    assert f"{node} failed with RuntimeError" in caplog.text
    assert "hunter2" not in result.model_dump_json() + caplog.text


@pytest.mark.parametrize("name", ["NOT_FOUND", "CONFLICT", "UNSUPPORTED_STRATEGY", "UNSUPPORTED_FILTER"])
def test_codes_of_the_store_pass(name: str) -> None:
    """A MemoryError of the store keeps its code and message."""
    result = MemoryNodes(Searching(MemoryError(name, "safe"))).search({"query": "x"})
    assert code(result) == name
    assert result.error.message == "safe"


@pytest.mark.parametrize("node", ["MEMORY.NOPE", "CONTEXT.LOAD", "", "execute"])
def test_unknown_nodes(node: str) -> None:
    """Another node type is a failed result with UNKNOWN_NODE, whatever the input."""
    assert code(MemoryNodes(Scripted()).execute(node, {"x": 1})) == "UNKNOWN_NODE"


def test_the_execution_id_is_kept_or_made() -> None:
    """The result carries the execution id given, else a new one, and the node."""
    nodes = MemoryNodes(Scripted())
    named = nodes.get({"ids": []}, execution_id="e")
    assert (named.execution_id, named.node) == ("e", "MEMORY.GET")
    assert nodes.get({"ids": []}).execution_id != nodes.get({"ids": []}).execution_id


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (None, "cancelled"),
        (Cancelled("TIMEOUT", "too late"), "timeout"),
        (DittoError("TIMEOUT", "too late"), "timeout"),
        (RuntimeError("a reason of the caller's own"), "cancelled"),
        (DittoError("OTHER", "x"), "failed"),
    ],
)
def test_a_cancelled_call_asks_nothing(reason: Exception | None, status: str) -> None:
    """A call that was cancelled before it began is reported so, and the store isn't asked."""
    store, token = Scripted([ONE]), CancelToken()
    token.cancel(reason)
    result = MemoryNodes(store).execute("MEMORY.GET", {"ids": ["1"]}, token=token)
    assert result.status == status
    assert store.asked == []


def test_a_write_is_known_by_its_operation_and_input() -> None:
    """The store gets the operation id with a hash of the drafts in which the order of keys is nothing."""
    store = Scripted([{"id": "1", "content": {"a": 1, "b": 2}}])
    nodes = MemoryNodes(store)
    for content in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2}):
        nodes.write({"memories": [{"content": content}]}, operation_id="op")
    nodes.write({"memories": [{"content": 1}]})
    one, same, other, none = (operation for _, operation in store.asked)
    assert one == same
    assert (one.id, one.input_hash) != (other.id, other.input_hash)
    assert none is None
