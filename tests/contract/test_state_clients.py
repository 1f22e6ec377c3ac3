"""Clients of state servers: they repeat nothing, log in, check certificates, and follow a failover."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot
from support.polling import eventually
from support.proxies import ReplyCutter, to_socket
from support.servers import PASSWORD, StateServer, state_server
from support.states import SCOPE, committing, context_of, ids_of, operation

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import DittoError, OutcomeUnknown, StateBackendError
from ditto_tasks.models import Scope
from ditto_tasks.state.encoding import operations_key, state_key
from ditto_tasks.state.redis import RedisContextStore, open_state_client, translated_errors


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[ReplyCutter]:
    """A proxy that can cut replies of the shared server."""
    with ReplyCutter(to_socket(server.socket_path)) as running:
        yield running


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateServer]:
    """A server behind TLS with a user who may do only what a worker does."""
    with state_server("tls-acl", tmp_path_factory.mktemp("tls")) as running:
        yield running


def code_of_reading(url: str, **options: str) -> str:
    """The code with which a task fails that reads a state from a server."""
    client = open_state_client(url, timeout_ms=2_000)
    try:
        with pytest.raises(StateBackendError) as caught, translated_errors():
            RedisContextStore(client, **options).get(SCOPE)
    finally:
        client.close()
    assert PASSWORD not in str(caught.value)
    return caught.value.code


def test_nothing_is_repeated(proxy: ReplyCutter) -> None:
    """A command whose reply is lost is sent once, and its error reaches the caller."""
    client = open_state_client(f"redis://127.0.0.1:{proxy.port}/2")
    client.ping()
    proxy.cut_reply_to(b"INCR")
    with pytest.raises(redis.ConnectionError):
        client.incr("counter")
    client.expire("counter", 60)
    assert client.get("counter") == b"1"
    client.close()


def test_a_client_that_repeats_makes_no_false_conflict_of_a_commit(proxy: ReplyCutter) -> None:
    """With redis-py's ten repetitions a commit whose reply was lost is found in the log: no conflict."""
    client = redis.Redis(port=proxy.port, db=2)
    commit = committing(RedisContextStore(client), "1", None, "a")
    proxy.cut_reply_to(b"EVALSHA")
    assert commit().version
    assert proxy.cuts == 1
    client.close()


def test_a_client_that_decodes_works_too(server: EmbeddedServer) -> None:
    """A redis-py client with decode_responses reads and writes the same states, foreign ones too."""
    client = redis.Redis.from_url(server.redis_url(2), decode_responses=True)
    store = RedisContextStore(client)
    client.set(
        state_key(SCOPE),
        '{"context":{"items":[{"id":"版本版本版本版本","content":1}]},"version":"v"}',
        px=60_000,
    )
    read = store.get(SCOPE)
    assert read is not None
    done = store.commit(SCOPE, operation("1"), expected_version=read.version, next=read.context)
    again = store.compare_and_set(SCOPE, done.version, context_of("é\ud800"))
    assert store.get(SCOPE) == again
    assert store.recall(SCOPE, operation("1")) is not None
    client.close()


def test_an_injected_client_stays_open(server: EmbeddedServer) -> None:
    """A store that goes away leaves the caller's client and its connections as they are."""
    client = redis.Redis.from_url(server.redis_url(2), single_connection_client=True)
    connection = client.client_id()
    store = RedisContextStore(client)
    store.get(SCOPE)
    del store
    assert client.client_id() == connection
    client.close()


def test_a_wrong_password_is_refused(tls_server: StateServer) -> None:
    """A login that fails is STATE_BACKEND_REFUSED, at once."""
    assert code_of_reading(tls_server.url.replace(PASSWORD, "wrong")) == "STATE_BACKEND_REFUSED"


def test_a_user_reaches_only_its_own_keys(tls_server: StateServer) -> None:
    """Keys that the ACL does not grant are STATE_BACKEND_REFUSED."""
    assert code_of_reading(tls_server.url, key_prefix="other:") == "STATE_BACKEND_REFUSED"


def test_an_unknown_certificate_is_not_trusted(tls_server: StateServer) -> None:
    """A server whose certificate nobody vouches for is not talked to."""
    assert code_of_reading(tls_server.url.split("?")[0]) == "STATE_BACKEND_UNAVAILABLE"


def test_plain_text_does_not_reach_a_tls_server(tls_server: StateServer) -> None:
    """A client without TLS gets no answer from a server behind it."""
    plain = tls_server.url.replace("rediss://", "redis://").split("?")[0]
    assert code_of_reading(plain) == "STATE_BACKEND_UNAVAILABLE"


@pytest.mark.parametrize("session", ["s", "{a}", "}{", "x{y}z"])
def test_a_scope_lives_in_one_slot(session: str) -> None:
    """State and operation log of a scope are in the same slot of a cluster."""
    scope = Scope(session_id=session)
    slots = {key_slot(key(scope).encode()) for key in (state_key, operations_key)}
    assert len(slots) == 1


def test_a_failover_is_followed(tmp_path: Path) -> None:
    """When Sentinel makes the replica the master, the same client goes on there with states and outcomes."""
    with state_server("sentinel", tmp_path) as server:
        client = open_state_client(server.url, timeout_ms=1_000)
        store = RedisContextStore(client, settle_ms=100)
        commit = committing(store, "1", None, "a")
        first = commit()
        eventually(lambda: client.wait(1, 500) == 1, 30, message="the replica does not follow")
        server.nodes[0].kill()
        server.fail_over()
        eventually(lambda: works(commit), 30, message="the replica did not take over")
        assert (commit().version, commit().replayed) == (first.version, True)
        stored = store.get(SCOPE)
        assert stored is not None
        assert ids_of(stored.context) == ["a"]
        client.close()


def works(call: object) -> bool:
    """Whether a commit succeeds; until then it may only fail as a server does that is not there."""
    try:
        call()  # type: ignore[operator]  # any callable
    except (StateBackendError, OutcomeUnknown):
        return False
    return True


def test_a_lost_node_of_a_cluster_is_a_typed_error(tmp_path: Path) -> None:
    """A scope whose node is gone fails typed, and one of another node goes on."""
    with state_server("cluster", tmp_path) as server:
        client = open_state_client(server.url, timeout_ms=1_000)
        store = RedisContextStore(client, settle_ms=100)
        scopes = [Scope(session_id=str(number)) for number in range(30)]
        for scope in scopes:
            store.commit(scope, operation("1"), expected_version=None, next=context_of("a"))
        server.nodes[2].kill()
        codes = {outcome_of_commit(store, scope) for scope in scopes}
        assert codes <= {
            "written",
            "STATE_BACKEND_UNAVAILABLE",
            "STATE_OUTCOME_UNKNOWN",
            "STATE_BACKEND_REFUSED",
        }
        assert len(codes) > 1
        client.close()


def outcome_of_commit(store: RedisContextStore, scope: Scope) -> str:
    """What a repeated commit comes to."""
    try:
        done = store.commit(scope, operation("1"), expected_version=None, next=context_of("a"))
    except DittoError as error:
        return error.code
    assert done.replayed
    return "written"


def test_an_unusable_url_opens_nothing() -> None:
    """A URL that means nothing is a SettingsError before any connection."""
    with pytest.raises(DittoError) as caught:
        open_state_client("amqp://h")
    assert caught.value.code == "INVALID_URL"
