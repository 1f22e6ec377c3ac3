"""What the clients do without I/O: the method table, calls, and ends of tasks."""

import pytest

from ditto_tasks.client.connections import open_async
from ditto_tasks.client.methods import DOMAINS, Method
from ditto_tasks.client.models import Receipt, read_context, read_selection
from ditto_tasks.client.protocol import Finished, finished, node_call, outcome
from ditto_tasks.client.streams import events_of
from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.errors import Cancelled, ContextError, ServiceError, SettingsError
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NODES


def test_the_methods_are_those_of_the_node_table():
    """Each node type has exactly one method, on the class of its own domain."""
    methods = {
        method.node: domain.__name__
        for domain in DOMAINS
        for method in vars(domain).values()
        if isinstance(method, Method)
    }
    assert methods.keys() == NODES.keys()
    for node, domain in methods.items():
        assert domain == f"{NODES[node].domain.title()}Methods"


def test_a_call_has_wire_names_and_an_id_of_its_own():
    """snake_case becomes camelCase, models their wire form, and options travel apart with wire names."""
    wire = {"scope": Scope(session_id="s"), "remove_ids": ["a"], "ditto": {"on_missing": "create"}}
    first, second = node_call("N", wire, str), node_call("N", wire, str)
    assert first.wire == {
        "scope": {"sessionId": "s"},
        "removeIds": ["a"],
        "ditto": {"onMissing": "create"},
    }
    assert first.task_id != second.task_id


@pytest.mark.parametrize("status", ["PENDING", "STARTED", "RETRY"])
def test_a_task_that_only_started_has_not_ended(status):
    """Interim records, which are published too, end no wait."""
    assert finished({"status": status, "result": {"pid": 1}}) is None


@pytest.mark.parametrize(
    ("meta", "error"),
    [
        ({"status": "FAILURE", "result": ContextError("STATE_CONFLICT", "m")}, ContextError),
        ({"status": "FAILURE", "result": RuntimeError("redis://user:secret@host")}, ServiceError),
        ({"status": "REVOKED", "result": None}, Cancelled),
    ],
)
def test_failures_are_raised_as_errors_of_this_package(meta, error):
    """Typed errors pass, others are told by their class's name only."""
    with pytest.raises(error) as caught:
        outcome(finished(meta), str)
    assert "secret" not in str(caught.value)


def test_a_success_is_read_as_its_type():
    """The reader of the call makes the value."""
    assert outcome(Finished(["a"], None), len) == 1


def test_context_replies_are_told_apart_by_their_shape():
    """Receipts, contexts, selections and nothing each become their own type."""
    receipt = {"scope": {"sessionId": "s"}, "version": "v", "items": 2, "tokens": 3}
    assert read_context(receipt) == Receipt(scope={"sessionId": "s"}, version="v", items=2, tokens=3)
    assert isinstance(read_context({"items": []}), Context)
    assert read_context(None) is None
    selection = {"purpose": "infer", "context": {"items": []}, "selectedItemIds": []}
    assert isinstance(read_selection(selection), ContextSelection)
    assert isinstance(read_selection({**receipt, "selection": selection}), Receipt)


def test_events_are_read_from_a_streams_entries():
    """What XREAD answers becomes events in order; nothing becomes none."""
    entries = [(b"key", [(b"1-0", {b"type": b"step", b"data": b'{"a":1}'})])]
    assert events_of(entries) == [("1-0", "step", {"a": 1})]
    assert events_of(None) == []


@pytest.mark.parametrize("url", ["sentinel://a:1/0;sentinel://b:2/0", "redis+sentinel://a/main/0"])
def test_an_event_loop_says_that_it_cannot_wait_behind_sentinel(url: str) -> None:
    """In either form of the address, and without showing it."""
    with pytest.raises(SettingsError, match="UNSUPPORTED_URL: event loops cannot wait on a sentinel address"):
        open_async(url, connections=1)
