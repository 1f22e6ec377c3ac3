"""Which queue a call goes to."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import DittoError, NodeInputError
from ditto_tasks.memory.erasure import subjects_of
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NODES, ORDINARY_QUEUES, NodeType
from ditto_tasks.publishing import check_publish
from ditto_tasks.routing import Router, shard_queue_of, worker_queues
from ditto_tasks.sharding import SHARD_QUEUES, is_shard_queue, shard_of, shard_queue
from ditto_tasks.state.erasure import ContextSubject
from ditto_tasks.tenants import owner_key, owner_keys, owners_of, tenant_of, tenant_session

SCOPE = {"sessionId": "s"}
ROUTE = Router(64)


def test_the_shard_is_the_specified_hash() -> None:
    """The first eight bytes of the SHA-256 of the scope key, modulo N."""
    key = scope_key(SCOPE)
    number = int(hashlib.sha256(key.encode()).hexdigest()[:16], 16)
    assert shard_of(key, 64) == number % 64
    assert shard_queue(5) == "ditto.ctx.5"


@given(st.text(), st.integers(1, 4096))
def test_every_scope_has_a_shard(key: str, count: int) -> None:
    """Always within 0..N-1."""
    assert 0 <= shard_of(key.encode("utf-8", "replace").decode(), count) < count


@pytest.mark.parametrize(
    "queue", ["ditto.ctx", "ditto.ctx.", "ditto.ctx.x", "ditto.ctx.1:dead", "ditto.context"]
)
def test_only_shards_queues_are_taken_for_such(queue: str) -> None:
    """Neither the pseudo-queue nor dead letters are."""
    assert not is_shard_queue(queue)
    assert is_shard_queue("ditto.ctx.17")


def test_mutations_of_a_scope_go_to_its_shard() -> None:
    """LOAD with sources, UPDATE, COMPRESS, and reads that ask for session consistency."""
    shard = {"queue": shard_queue(shard_of(scope_key(SCOPE), 64))}
    session = {"scope": SCOPE, "ditto": {"consistency": "session"}}
    assert ROUTE("CONTEXT.UPDATE", None, {"scope": SCOPE}, {}) == shard
    assert ROUTE("CONTEXT.COMPRESS", None, {"scope": SCOPE}, {}) == shard
    assert ROUTE("CONTEXT.LOAD", None, {"scope": SCOPE, "sources": []}, {}) == shard
    assert ROUTE("CONTEXT.LOAD", None, session, {}) == ROUTE("CONTEXT.SELECT", None, session, {}) == shard


def test_several_scopes_of_one_shard_go_there_together() -> None:
    """A mutation of several scopes has the shard that they share; no call has scopes of two."""
    row, first = NodeType("CUSTOM.MANY", "CUSTOM", mutates=True, many_scopes=True), {"sessionId": "s0"}
    route = Router(4, {row.name: row})
    names = [f"s{number}" for number in range(50)]
    queues = {name: shard_queue_of({"sessionId": name}, 4) for name in names}
    same = [{"sessionId": name} for name in names if queues[name] == queues["s0"]]
    (other, *_) = [{"sessionId": name} for name in names if queues[name] != queues["s0"]]
    assert len(same) > 1
    assert route(row.name, (), {"scopes": same}, {}) == {"queue": queues["s0"]}
    for wrong in ([first, other], [], None, "s0", first):
        with pytest.raises(NodeInputError, match="INVALID_INPUT: /scopes"):
            check_publish(row, (), {"scopes": wrong}, 4)
    with pytest.raises(DittoError, match="INVALID_INPUT"):
        check_publish(row, (), {"scopes": [first, {"sessionId": 7}]}, 4)


def test_a_call_with_several_scopes_hides_them() -> None:
    """Logs and events say how many there are."""
    row = NodeType("CUSTOM.MANY", "CUSTOM", mutates=True, many_scopes=True)
    publish = check_publish(row, (), {"scopes": [{"sessionId": "canary"}]}, 1)
    options = publish.options(row.name, {})
    assert options["queue"] == "ditto.ctx.0"
    assert "scopes=1" in options["kwargsrepr"]
    assert "canary" not in str(options)


def test_all_else_goes_to_its_domains_queue() -> None:
    """Plain reads and explicit calls may run anywhere; other domains have their own queues."""
    for wire in ({"scope": SCOPE}, {}):
        assert ROUTE("CONTEXT.SELECT", None, wire, {}) == {"queue": "ditto.context"}
    assert ROUTE("CONTEXT.UPDATE", None, {}, {}) == {"queue": "ditto.context"}
    assert ROUTE("MEMORY.SEARCH", None, {"scope": SCOPE}, {}) == {"queue": "ditto.memory"}


def test_a_predecessors_result_does_not_route() -> None:
    """args[0] of a chain's step is data."""
    assert ROUTE("CONTEXT.UPDATE", [{"scope": SCOPE}], {}, {}) == {"queue": "ditto.context"}


def test_unknown_tasks_and_chosen_queues_are_left_alone() -> None:
    """Celery's own tasks go to the default queue; what the sender chose stays."""
    assert ROUTE("celery.chord_unlock", None, {}, {}) is None
    assert ROUTE("CONTEXT.UPDATE", None, {"scope": SCOPE}, {"queue": "q"}) is None


def test_every_node_has_an_ordinary_queue_that_workers_serve() -> None:
    """And no queue has an exchange, whose binding could vanish."""
    assert {row.queue for row in NODES.values()} < set(ORDINARY_QUEUES)
    assert NodeType("TEXT.COUNT", "TEXT").queue == "ditto.context"
    assert [queue.name for queue in worker_queues()] == [*ORDINARY_QUEUES, SHARD_QUEUES]


def test_tenants_are_prefixes_of_session_ids() -> None:
    """Built and parsed by the same rule; a name with a colon is no tenant's."""
    assert tenant_of({"sessionId": tenant_session("acme-1", "a:b")}) == "acme-1"
    assert tenant_of({"sessionId": "no tenant:x"}) is tenant_of({"sessionId": "x"}) is tenant_of({}) is None
    with pytest.raises(ValueError, match="tenant"):
        tenant_session("a:b", "x")


@pytest.mark.parametrize(
    "session", ["a:s", "a:", ":s", "a b:s", "ä:s", "a/b:c", "a", "", "http://x", "a:b:c"]
)
def test_there_is_one_rule_of_what_a_tenant_is(session: str) -> None:
    """Headers, owners in keys, erasure of contexts and erasure of memories agree on whose a session is."""
    tenant = tenant_of({"sessionId": session})
    keys = () if tenant is None else (owner_key("tenant", tenant),)
    own = (owner_key("session", session),) if session else ()
    assert owner_keys(session) == owners_of(session, "other")[: len(own + keys)] == own + keys
    named = {name for name in subjects_of("", [session]) if name.startswith("tenant ")}
    assert named == (set() if tenant is None else {f"tenant {tenant}"})
    for name in ("a", "a b", "ä", "a/b", "http", ""):
        covered = bool(session) and ContextSubject(tenant=name).covers(Scope(session_id=session))
        assert covered == (name == tenant)


def test_every_node_names_models_that_exist() -> None:
    """Input and output models are found under the names of the table."""
    assert all(row.input_model for row in NODES.values())
    assert [name for name, row in NODES.items() if row.output_model is None] == []
    assert NODES["MEMORY.GET"].lists_output
    assert not NODES["MEMORY.QUERY"].lists_output
