"""Scoped calls in process: the order of checks, the state, the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.contexts import context, ids, item, refused

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context import (
    Context,
    ContextExecution,
    ContextNodes,
    ContextOperationQueue,
    ContextPolicy,
    ContextServices,
    InMemoryContextStore,
    RedisOptions,
    StoredContext,
    UpdateInput,
    apply_mutation,
)
from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope

SCOPE = {"sessionId": "s"}


class Store:
    """An in-memory store that remembers which calls reached it."""

    def __init__(self) -> None:
        self.inner = InMemoryContextStore()
        self.calls: list[str] = []
        self.seen: list[CancelToken | None] = []
        self.before_write: Callable[[], None] = lambda: None
        self.after_write: Callable[[], None] = lambda: None

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        self.calls.append("get")
        self.seen.append(call)
        return self.inner.get(scope)

    def compare_and_set(
        self,
        scope: Scope,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- the port's name
        call: CancelToken | None = None,
    ) -> StoredContext:
        self.calls.append("set")
        self.seen.append(call)
        self.before_write()
        stored = self.inner.compare_and_set(scope, expected_version, next)
        self.after_write()
        return stored

    def version(self) -> str | None:
        stored = self.inner.get(Scope(session_id="s"))
        return stored.version if stored else None


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def nodes(store: Store) -> ContextNodes:
    return ContextNodes(services=ContextServices(state_store=store))


def test_state_lives_between_calls(nodes: ContextNodes, store: Store) -> None:
    """LOAD replaces, UPDATE and COMPRESS change, SELECT and LOAD of a scope only read."""
    nodes.load(scope=SCOPE, sources=[item("a")])
    nodes.update(scope=Scope(session_id="s"), add=[item("b")])
    assert ids(nodes.select(scope=SCOPE, purpose="infer")) == ["b", "a"]
    nodes.compress(scope=SCOPE, max_items=1)
    assert ids(nodes.load({"scope": SCOPE})) == ["b"]
    assert store.calls == ["get", "set", "get", "set", "get", "get", "set", "get"]
    nodes.load(scope=SCOPE, sources=[item("z")])
    assert ids(nodes.load(scope=SCOPE)) == ["z"]


def test_every_mutation_is_a_new_version(nodes: ContextNodes, store: Store) -> None:
    """UPDATE and COMPRESS write even when nothing changed."""
    nodes.load(scope=SCOPE, sources=[])
    versions = {store.version()}
    nodes.update(scope=SCOPE)
    versions.add(store.version())
    nodes.compress(scope=SCOPE)
    versions.add(store.version())
    assert len(versions) == 3


def test_scopes_do_not_fall_back(nodes: ContextNodes) -> None:
    """A session's state is not that of one of its turns."""
    nodes.load(scope=SCOPE, sources=[])
    assert refused(nodes.load, scope={**SCOPE, "turnId": "t"}) == "CONTEXT_NOT_FOUND"


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": None},
        {"scope": {}},
        {"scope": {"sessionId": ""}},
        {"scope": {"sessionId": None}},
        {"scope": {"sessionId": "s", "self": "x"}},
        {"scope": SCOPE, "context": context()},
        {"scope": SCOPE, "context": None},
        {"scope": SCOPE, "expectedVersion": ""},
        {"scope": SCOPE, "expectedVersion": None},
        {"expectedVersion": "1", "context": context()},
    ],
)
def test_what_is_refused_before_the_store(nodes: ContextNodes, store: Store, fields: dict[str, Any]) -> None:
    """Scope, a context beside it and the version are checked before the store is asked."""
    assert refused(nodes.update, fields) == "INVALID_INPUT"
    assert refused(ContextNodes().update, fields) == "INVALID_INPUT"
    assert store.calls == []


def test_no_store() -> None:
    """A valid scope without a store is STATE_STORE_UNAVAILABLE, whatever the rest of the input is."""
    assert refused(ContextNodes().update, {"scope": SCOPE, "add": 5}) == "STATE_STORE_UNAVAILABLE"


def test_order_of_checks(nodes: ContextNodes, store: Store) -> None:
    """A version comes before a missing state, and that before the node's own input."""
    bad: dict[str, Any] = {"scope": SCOPE, "add": 5}
    assert refused(nodes.update, {**bad, "expectedVersion": "1"}) == "STATE_CONFLICT"
    assert refused(nodes.update, bad) == "CONTEXT_NOT_FOUND"
    assert refused(nodes.load, {"scope": SCOPE}) == "CONTEXT_NOT_FOUND"
    assert refused(nodes.load, {"scope": SCOPE, "sources": None}) == "INVALID_INPUT"
    nodes.load(scope=SCOPE, sources=[])
    assert refused(nodes.update, bad) == "INVALID_INPUT"
    assert refused(nodes.load, {"scope": SCOPE, "expectedVersion": "1"}) == "STATE_CONFLICT"
    version = store.version()
    assert refused(nodes.update, {**bad, "expectedVersion": version}) == "INVALID_INPUT"
    assert store.version() == version


def test_a_conflict_names_the_current_version(nodes: ContextNodes, store: Store) -> None:
    """The details of STATE_CONFLICT say which version the state has."""
    nodes.load(scope=SCOPE, sources=[])
    with pytest.raises(ContextError) as caught:
        nodes.update(scope=SCOPE, expected_version="old")
    assert caught.value.details == {"current_version": store.version()}
    nodes.update(scope=SCOPE, expected_version=str(store.version()))


def test_a_write_in_between_is_a_conflict(nodes: ContextNodes, store: Store) -> None:
    """What another caller wrote after the read is not overwritten, and nothing is retried."""
    nodes.load(scope=SCOPE, sources=[])
    store.before_write = lambda: _write_elsewhere(store)
    assert refused(nodes.update, scope=SCOPE, add=[item("mine")]) == "STATE_CONFLICT"
    assert ids(nodes.load(scope=SCOPE)) == ["theirs"]


def _write_elsewhere(store: Store) -> None:
    theirs = Context(items=[item("theirs")])
    store.inner.compare_and_set(Scope(session_id="s"), store.version(), theirs)


@pytest.mark.parametrize(
    "answer",
    [{"version": "1"}, 5, StoredContext("", Context(items=())), StoredContext("1", None)],
)
def test_a_broken_store(answer: Any) -> None:
    """What is no version with a context is INVALID_STATE."""
    broken = Store()
    broken.inner.get = lambda *_: answer
    nodes = ContextNodes(services=ContextServices(state_store=broken))
    assert refused(nodes.load, scope=SCOPE) == "INVALID_STATE"


def test_cancelled_before_the_write(nodes: ContextNodes, store: Store) -> None:
    """A call cancelled while it reads writes nothing and raises the reason unchanged."""
    nodes.load(scope=SCOPE, sources=[])
    token, version = CancelToken(), store.version()
    read = store.inner.get

    def cancelling(scope: Scope) -> StoredContext | None:
        token.cancel(KeyError("stop"))
        return read(scope)

    store.inner.get = cancelling
    with pytest.raises(KeyError, match="stop"):
        nodes.update(scope=SCOPE, add=[item("a")], call=token)
    store.inner.get = read
    assert (store.version(), store.calls.count("set")) == (version, 1)


def test_cancelled_after_the_write(nodes: ContextNodes, store: Store) -> None:
    """A call cancelled after the write raises, although the write stands."""
    token = CancelToken()
    store.after_write = token.cancel
    assert refused_as_cancelled(nodes, token)
    assert ids(nodes.load(scope=SCOPE)) == ["a"]
    assert store.seen[:2] == [token, token]


def refused_as_cancelled(nodes: ContextNodes, token: CancelToken) -> bool:
    with pytest.raises(Exception, match="CANCELLED"):
        nodes.load(scope=SCOPE, sources=[item("a")], call=token)
    return True


class CountingToken(CancelToken):
    """Counts how often the work asks."""

    checks = 0

    def raise_if_cancelled(self) -> None:
        self.checks += 1


def test_check_points(nodes: ContextNodes) -> None:
    """On entry, before and after get, after the node, and after the write."""
    nodes.load(scope=SCOPE, sources=[])
    calls: list[tuple[str, dict[str, Any], int]] = [
        ("CONTEXT.LOAD", {}, 3),
        ("CONTEXT.SELECT", {"purpose": "infer"}, 4),
        ("CONTEXT.UPDATE", {}, 5),
    ]
    for node, fields, expected in calls:
        token = CountingToken()
        nodes.execute(node, {"scope": SCOPE, **fields}, call=token)
        assert token.checks == expected, node


def test_queue_runs_scoped_calls_only(store: Store) -> None:
    """Scoped calls wait their turn, explicit ones do not, and bad ones never reach the queue."""
    queue = ContextOperationQueue(max_pending=1)
    nodes = ContextNodes(services=ContextServices(state_store=store, operation_queue=queue))
    nodes.load(scope=SCOPE, sources=[item("a")])
    inside: list[str] = []

    def reenter() -> None:
        inside.append(refused(nodes.load, scope={"sessionId": "other"}))
        inside.append(refused(nodes.load, scope={}))
        nodes.update(context=context())

    store.before_write = reenter
    assert ids(nodes.update(scope=SCOPE, add=[item("b")])) == ["a", "b"]
    assert inside == ["QUEUE_FULL", "INVALID_INPUT"]


def test_redis_and_a_store_exclude_each_other(store: Store) -> None:
    """Both given is INVALID_INPUT at construction."""
    options = RedisOptions(object())
    services = ContextServices(state_store=store)
    assert refused(ContextNodes, redis=options, services=services) == "INVALID_INPUT"


def test_input_models_may_be_scoped(nodes: ContextNodes) -> None:
    """An input model with a scope is taken like its wire form."""
    nodes.load(scope=SCOPE, sources=[])
    request = UpdateInput(scope=Scope(session_id="s"), add=[item("a")])
    assert ids(nodes.update(request)) == ["a"]
    assert ids(nodes.execute("CONTEXT.UPDATE", request)) == ["a"]
    assert ids(nodes.update(request, remove_ids=["a"], add=[])) == []


def test_mutation_of_a_context_that_was_read() -> None:
    """apply_mutation checks in the order of a scoped call and gives the next context."""
    execution = ContextExecution(ContextPolicy())
    wire = {"scope": SCOPE, "expectedVersion": "1", "add": [item("a")]}
    empty = Context(items=())
    assert ids(apply_mutation("CONTEXT.UPDATE", wire, empty, execution)) == ["a"]
    assert ids(apply_mutation("CONTEXT.LOAD", {"scope": SCOPE, "sources": []}, None, execution)) == []
    assert refused(apply_mutation, "CONTEXT.UPDATE", {"add": 5}, None, execution) == "CONTEXT_NOT_FOUND"
    assert refused(apply_mutation, "CONTEXT.UPDATE", {"add": 5}, empty, execution) == "INVALID_INPUT"
    assert refused(apply_mutation, "CONTEXT.NOPE", {}, None, execution) == "UNKNOWN_NODE"
    token = CancelToken()
    token.cancel(KeyError("stop"))
    with pytest.raises(KeyError):
        apply_mutation("CONTEXT.UPDATE", wire, None, execution, token)
