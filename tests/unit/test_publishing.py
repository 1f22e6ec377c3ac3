"""The sender's checks: what is refused before anything is sent, and what a message shows."""

from typing import Any

import pytest

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, NodeInputError, PublishError
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NODES
from ditto_tasks.publishing import MAX_MESSAGE_BYTES, check_order, check_publish, check_size
from ditto_tasks.sharding import shard_of, shard_queue

SCOPE = {"sessionId": "acme:one"}
KEY = scope_key(SCOPE)
QUEUE = shard_queue(shard_of(KEY, 64))
UPDATE = NODES["CONTEXT.UPDATE"]


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_a_scoped_mutation_goes_to_its_shard() -> None:
    """Queue, scope hash and tenant come from the scope."""
    publish = check_publish(UPDATE, (), {"scope": SCOPE, "add": []}, 64)
    assert (publish.queue, publish.scope_hash, publish.tenant) == (QUEUE, KEY, "acme")


def test_a_scope_may_be_a_model() -> None:
    """A Scope goes out in its wire form."""
    assert check_publish(UPDATE, (), {"scope": Scope(session_id="s")}, 64).kwargs["scope"] == {
        "sessionId": "s"
    }


def test_a_plain_read_may_run_anywhere() -> None:
    """Only mutations and session reads need the shard."""
    for wire in ({"scope": SCOPE}, {"scope": SCOPE, "purpose": "infer"}):
        assert check_publish(NODES["CONTEXT.LOAD"], (), wire, 64).queue is None
    session = {"scope": SCOPE, "ditto": {"consistency": "session"}}
    assert check_publish(NODES["CONTEXT.LOAD"], (), session, 64).queue == QUEUE
    assert check_publish(NODES["CONTEXT.LOAD"], (), {"scope": SCOPE, "sources": []}, 64).queue == QUEUE


def test_a_scope_of_another_domain_routes_nothing() -> None:
    """INFER.CACHE keys have a scope of their own kind."""
    publish = check_publish(NODES["INFER.CACHE.LOOKUP"], (), {"scope": "any", "key": "k"}, 64)
    assert (publish.queue, publish.scope_hash) == (None, None)


@pytest.mark.parametrize("version", ["", None, 1, True])
def test_expected_version_is_checked_by_the_sender(version: object) -> None:
    """It must be a nonempty string if it is given."""
    with pytest.raises(ContextError, match="expectedVersion"):
        check_publish(UPDATE, (), {"scope": SCOPE, "expectedVersion": version}, 64)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"content": float("nan")}, "/add/0/content"),
        ({"content": 10**400}, "/add/0/content"),
        ({"content": {"a/b": {1: 2}}}, "/add/0/content/a~1b"),
        ({"content": (1, 2)}, "/add/0/content"),
        ({"content": nested(201)}, "/add/0/content"),
        ({"metadata": {"a": nested(200)}}, "/add/0/metadata"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(value: object, path: str) -> None:
    """The path is a JSON pointer into the input."""
    with pytest.raises(ContextError) as caught:
        check_publish(UPDATE, (), {"add": [value]}, 64)
    assert (caught.value.code, caught.value.details) == ("INVALID_INPUT", {"path": path})
    with pytest.raises(NodeInputError):
        check_publish(NODES["MEMORY.WRITE"], (), {"add": [value]}, 64)


def test_content_of_200_levels_is_accepted() -> None:
    """The limit counts from the content, wherever it stands."""
    context = {"items": [{"id": "a", "content": nested(200)}]}
    check_publish(NODES["CONTEXT.SELECT"], (), {"context": context, "query": nested(200)}, 64)


@pytest.mark.parametrize(
    "option", ["eta", "countdown", "expires", "priority", "routing_key", "exchange", "queue"]
)
def test_options_that_break_the_order_are_refused_on_shards(option: str) -> None:
    """A typed error names the option; elsewhere Celery's options work as ever."""
    scoped = check_publish(UPDATE, (), {"scope": SCOPE}, 64)
    with pytest.raises(PublishError) as caught:
        check_order(scoped, {option: 5 if option != "queue" else "ditto.context"})
    assert (caught.value.code, caught.value.details) == ("SHARD_OPTION_REFUSED", {"option": option})
    check_order(check_publish(UPDATE, (), {"context": {"items": []}}, 64), {option: "5"})


def test_nothing_else_may_be_sent_to_a_shard() -> None:
    """A call without a scope has no place in a shard's queue."""
    with pytest.raises(PublishError):
        check_order(check_publish(UPDATE, (), {}, 64), {"queue": "ditto.ctx.3"})


def test_the_size_of_the_whole_message_counts() -> None:
    """Arguments and canvas together are at most 4 MiB."""
    small = check_publish(UPDATE, (), {"add": "x" * 1000}, 64)
    check_size(small, {"chain": None})
    with pytest.raises(PublishError) as caught:
        check_size(small, {"chain": ["x" * MAX_MESSAGE_BYTES]})
    assert caught.value.code == "MESSAGE_TOO_LARGE"


def test_a_call_without_scope_names_its_tenant() -> None:
    """The option `tenant` is noted like a scope's, and travels as a header; what is no name is refused."""
    sample = NODES["INFER.REASONING.SAMPLE"]
    publish = check_publish(sample, (), {"messages": [], "ditto": {"tenant": "acme"}}, 64)
    assert publish.tenant == "acme"
    assert publish.options(sample.name, {})["headers"]["ditto_tenant"] == "acme"
    assert "ditto_tenant" not in check_publish(sample, (), {"messages": []}, 64).options("n", {})["headers"]
    with pytest.raises(NodeInputError, match="/ditto/tenant"):
        check_publish(sample, (), {"ditto": {"tenant": "a:b"}}, 64)


def test_options_hide_arguments_and_name_version_and_scope() -> None:
    """Reprs hold node, queue, scope hash and sizes; a sender can't set a shard's epoch or refusal."""
    publish = check_publish(UPDATE, ({"secret": 1},), {"scope": SCOPE, "add": ["secret", "x"]}, 64)
    forged = {"ditto_epoch": 5, "ditto_refuse": "X"}
    given = {"headers": {**forged, "mine": 1}, "serializer": "pickle", "kwargsrepr": "secret"}
    options = publish.options("CONTEXT.UPDATE", given)
    expected = {"ditto_v": 1, "ditto_scope": KEY, "mine": 1}
    assert options["headers"].items() >= expected.items()
    assert not forged.keys() & options["headers"].keys()
    assert (options["argsrepr"], options["kwargsrepr"]) == ("()", f"<CONTEXT.UPDATE {QUEUE} {KEY} add=2>")
    assert (options["serializer"], options["queue"]) == ("ditto", QUEUE)
