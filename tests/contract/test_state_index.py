"""The scope index on every kind of server: names what has a context, and nothing else."""

import pytest
from support.polling import eventually
from support.servers import KINDS
from support.states import OTHER_SCOPE, SCOPE, Backend, committing, context_of, refused

from ditto_tasks.models import Scope
from ditto_tasks.state.encoding import index_entry, index_keys, state_key
from ditto_tasks.state.index import Reindexed, ScopeIndex

pytestmark = pytest.mark.parametrize("state_backend", KINDS, indirect=True)  # memory has no index
ODD = Scope(session_id="lone \ud800 *?[x]\\", invocation_id="你好")


@pytest.fixture
def index(states: Backend) -> ScopeIndex:
    """The index of an empty server."""
    assert states.client is not None
    return ScopeIndex(states.client)


def named(index: ScopeIndex, prefix: str = "") -> set[str]:
    """The scopes that the index names, as text."""
    entries = [repr(entry.scope) for entry in index.scopes(prefix)]
    assert len(entries) == len(set(entries))
    return set(entries)


def test_written_scopes_are_named(states: Backend, index: ScopeIndex) -> None:
    """A scope is named once after compare-and-sets and commits, with the time at which it expires."""
    store = states.store(ttl_ms=60_000)
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    committing(store, "1", first.version, "b")()
    store.compare_and_set(OTHER_SCOPE, None, context_of("a"))
    store.compare_and_set(ODD, None, context_of("a"))
    assert named(index) == {repr(scope) for scope in (SCOPE, OTHER_SCOPE, ODD)}
    assert states.admin is not None
    (entry,) = [entry for entry in index.scopes() if entry.scope == SCOPE]
    assert abs(entry.expires_ms - states.admin.pexpiretime(state_key(SCOPE))) < 100


def test_a_prefix_is_literal(states: Backend, index: ScopeIndex) -> None:
    """A prefix selects by the start of the session id; no character of it is a wildcard."""
    store = states.store()
    for session in ("a:1", "a:2", "ab:1", "*:1"):
        store.compare_and_set(Scope(session_id=session), None, context_of("x"))
    store.compare_and_set(Scope(turn_id="a:"), None, context_of("x"))
    assert named(index, "a:") == {repr(Scope(session_id=session)) for session in ("a:1", "a:2")}
    assert named(index, "*") == {repr(Scope(session_id="*:1"))}
    assert len(named(index)) == 5


def test_expired_scopes_are_purged(states: Backend, index: ScopeIndex) -> None:
    """A scope is no longer named once its context has expired, and its entry is dropped by reading."""
    scopes = [Scope(session_id=str(number)) for number in range(100)]
    dying, lasting = [scope for scope in scopes if index_entry(scope)[0] == index_keys()[0]][:2]
    states.store(ttl_ms=50).compare_and_set(dying, None, context_of("a"))
    states.store().compare_and_set(lasting, None, context_of("a"))
    admin = states.admin
    assert admin is not None
    eventually(lambda: named(index) == {repr(lasting)} and admin.zcard(index_keys()[0]) == 1)


def test_a_conflict_names_nothing(states: Backend, index: ScopeIndex) -> None:
    """A write that failed on an absent scope does not make it look present."""
    refused(lambda: states.store().compare_and_set(SCOPE, "v", context_of("a")), "STATE_CONFLICT")
    assert named(index) == set()


def test_a_deleted_scope_is_not_named(states: Backend, index: ScopeIndex) -> None:
    """A record that was deleted by hand is not named although its entry is still there."""
    states.store().compare_and_set(SCOPE, None, context_of("a"))
    assert states.admin is not None
    states.admin.delete(state_key(SCOPE))
    assert named(index) == set()


def test_a_lost_index_is_rebuilt(states: Backend, index: ScopeIndex) -> None:
    """reindex names every record of ours again, until it expires, and lists foreign ones by their keys."""
    store = states.store(ttl_ms=60_000)
    for scope in (SCOPE, OTHER_SCOPE, ODD):
        store.compare_and_set(scope, None, context_of("a"))
    assert states.admin is not None
    foreign = "ditto:context:scope:" + "0" * 64
    states.admin.set(foreign, '{"version":"v","context":{"items":[]}}', px=60_000)
    states.admin.rpush("ditto:context:scope:not-a-string", "x")
    states.admin.pexpire("ditto:context:scope:not-a-string", 60_000)
    for key in index_keys():
        states.admin.delete(key)
    assert index.reindex() == Reindexed(named=3, unnamed=(foreign,))
    assert named(index) == {repr(scope) for scope in (SCOPE, OTHER_SCOPE, ODD)}
    (entry,) = [entry for entry in index.scopes() if entry.scope == SCOPE]
    assert abs(entry.expires_ms - states.admin.pexpiretime(state_key(SCOPE))) < 1_000


def test_a_record_under_the_wrong_key_is_unnamed(states: Backend, index: ScopeIndex) -> None:
    """A record whose scope does not belong to its key is listed and not taken at its word."""
    states.store().compare_and_set(SCOPE, None, context_of("a"))
    assert states.admin is not None
    wrong = "ditto:context:scope:" + "1" * 64
    states.admin.set(wrong, states.admin.get(state_key(SCOPE)), px=60_000)
    assert index.reindex().unnamed == (wrong,)


def test_prefixes_are_separate_deployments(states: Backend, index: ScopeIndex) -> None:
    """Stores under different key prefixes see neither states nor scopes of each other."""
    other = "ditto:context:*:"  # within what the ACL of a worker allows
    states.store(key_prefix=other).compare_and_set(SCOPE, None, context_of("a"))
    assert states.store().get(SCOPE) is None
    assert named(index) == set()
    assert states.client is not None
    assert ScopeIndex(states.client, key_prefix=other).reindex().named == 1
    assert ScopeIndex(states.client, key_prefix="ditto:conte*:").reindex() == Reindexed(0, ())
