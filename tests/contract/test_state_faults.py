"""What a caller is told when the state server fails, and that nothing is half-written then."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from support.proxies import ReplyCutter, to_socket
from support.states import SCOPE, committing, context_of, ids_of, operation, refused

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError, OutcomeUnknown, StateBackendError
from ditto_tasks.state.encoding import operations_key, state_key
from ditto_tasks.state.lined import LinedContextStore
from ditto_tasks.state.redis import RedisContextStore, StateClient, open_state_client, translated_errors

SETTLE_MS = 300


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server that the test may break, with its data on disk after each command."""
    with EmbeddedServer(appendonly=True, extra_args=["--appendfsync", "always"]) as running:
        yield running


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Iterator[StateClient]:
    """A direct client that sees what is really stored."""
    client = open_state_client(own_server.redis_url(2))
    yield client
    client.close()


@pytest.fixture
def proxy(own_server: EmbeddedServer) -> Iterator[ReplyCutter]:
    """A proxy that can cut replies."""
    with ReplyCutter(to_socket(own_server.socket_path)) as running:
        yield running


@pytest.fixture(params=[RedisContextStore, LinedContextStore])
def store(proxy: ReplyCutter, request: pytest.FixtureRequest) -> Iterator[RedisContextStore]:
    """A store behind the proxy, as callers or as workers have it; an unreachable server is given up soon."""
    client = open_state_client(f"redis://127.0.0.1:{proxy.port}/2", timeout_ms=1_000)
    yield request.param(client, settle_ms=SETTLE_MS)
    client.close()


def everything(client: StateClient) -> dict[bytes, bytes | None]:
    """Every key of the state's database, byte by byte."""
    return {key: client.dump(key) for key in client.keys("*")}


def test_without_a_server_reading_is_a_typed_error(tmp_path: Path) -> None:
    """Without a server reading raises the driver's error in process, STATE_BACKEND_UNAVAILABLE at a task."""
    client = open_state_client(f"unix://{tmp_path}/none")
    store = RedisContextStore(client)
    with pytest.raises(redis.ConnectionError):
        store.get(SCOPE)
    with pytest.raises(StateBackendError) as caught, translated_errors():
        store.get(SCOPE)
    assert caught.value.code == "STATE_BACKEND_UNAVAILABLE"
    refused(lambda: store.recall(SCOPE, operation("1")), "STATE_BACKEND_UNAVAILABLE", StateBackendError)
    client.close()


@pytest.mark.parametrize("version", [None, "some-version"])
def test_without_a_server_a_commit_is_of_unknown_outcome(tmp_path: Path, version: str | None) -> None:
    """A commit that cannot be asked about until the deadline is STATE_OUTCOME_UNKNOWN."""
    client = open_state_client(f"unix://{tmp_path}/none")
    store = RedisContextStore(client, settle_ms=SETTLE_MS)
    error = refused(committing(store, "1", version, "a"), "STATE_OUTCOME_UNKNOWN", OutcomeUnknown)
    assert "same operation id is safe" in error.message
    client.close()


def test_a_lost_reply_is_found_in_the_log(
    store: RedisContextStore, proxy: ReplyCutter, admin: StateClient
) -> None:
    """When only the reply of a commit is cut, the commit reports the version that it wrote."""
    store.commit(SCOPE, operation("0"), expected_version=None, next=context_of("warm"))
    current = store.get(SCOPE)
    assert current is not None
    proxy.cut_reply_to(b"EVALSHA")
    done = store.commit(SCOPE, operation("1"), expected_version=current.version, next=context_of("a"))
    stored = store.get(SCOPE)
    assert stored is not None
    assert proxy.cuts == 1
    assert (done.version, done.replayed) == (stored.version, False)
    assert ids_of(stored.context) == ["a"]


def test_a_write_without_a_log_is_never_sent_twice(store: RedisContextStore, proxy: ReplyCutter) -> None:
    """A compare-and-set whose reply is cut is an error of the connection: again it would seem a conflict."""
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    proxy.cut_reply_to(b"EVALSHA")
    with pytest.raises(redis.ConnectionError):
        store.compare_and_set(SCOPE, first.version, context_of("b"))
    stored = store.get(SCOPE)
    assert stored is not None
    assert ids_of(stored.context) == ["b"]


def test_a_workers_read_survives_its_connection(proxy: ReplyCutter) -> None:
    """State and log are asked again, on a new connection, when one that was good breaks."""
    client = open_state_client(f"redis://127.0.0.1:{proxy.port}/2", timeout_ms=1_000)
    store = LinedContextStore(client, settle_ms=SETTLE_MS)
    done = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))
    assert store.recall(SCOPE, operation("1")) is not None  # from now on the server knows its script
    proxy.cut_reply_to(b"GET")
    stored = store.get(SCOPE)
    assert stored is not None
    assert stored.version == done.version
    proxy.cut_reply_to(b"EVALSHA")
    assert store.recall(SCOPE, operation("1")) is not None
    assert proxy.cuts == 2
    client.close()


def test_a_lost_request_leaves_the_state_untouched(
    store: RedisContextStore, proxy: ReplyCutter, admin: StateClient
) -> None:
    """When a commit's request never arrives, the error says so and the operation can be repeated."""
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    proxy.cut_reply_to(b"EVALSHA", withhold=True)
    call = committing(store, "1", first.version, "b")
    refused(call, "STATE_BACKEND_UNAVAILABLE", StateBackendError)
    assert store.get(SCOPE) == first
    assert call().replayed is False


def test_a_late_request_is_not_applied(
    store: RedisContextStore, proxy: ReplyCutter, admin: StateClient
) -> None:
    """A commit that was reported as failed is not applied when its request arrives afterwards after all."""
    first = store.commit(SCOPE, operation("0"), expected_version=None, next=context_of("a"))
    for attempt in (1, 2):
        proxy.cut_reply_to(b"EVALSHA", withhold=True)
        call = committing(store, "1", first.version, "late")
        refused(call, "STATE_BACKEND_UNAVAILABLE", StateBackendError)
        assert proxy.cuts == attempt
    assert b"void" in proxy.release(database=2)
    stored = store.get(SCOPE)
    assert stored is not None
    assert stored.version == first.version
    assert store.recall(SCOPE, operation("1")) is None


def test_a_server_that_dies_in_the_call_comes_back(own_server: EmbeddedServer, admin: StateClient) -> None:
    """A commit whose server dies after writing, before replying, and is back in time has its version."""
    with ReplyCutter(to_socket(own_server.socket_path), then=lambda: crash_and_start(own_server)) as proxy:
        client = open_state_client(f"redis://127.0.0.1:{proxy.port}/2", timeout_ms=1_000)
        store = RedisContextStore(client, settle_ms=5_000)
        first = store.commit(SCOPE, operation("0"), expected_version=None, next=context_of("a"))
        proxy.cut_reply_to(b"EVALSHA")
        done = store.commit(SCOPE, operation("1"), expected_version=first.version, next=context_of("b"))
        stored = store.get(SCOPE)
        assert stored is not None
        assert (stored.version, ids_of(stored.context)) == (done.version, ["b"])
        client.close()


def test_a_server_that_stays_away_leaves_the_outcome_unknown(
    own_server: EmbeddedServer,
) -> None:
    """A server that dies in the call and stays away gives STATE_OUTCOME_UNKNOWN; repeating later is safe."""
    with ReplyCutter(to_socket(own_server.socket_path), then=own_server.kill) as proxy:
        client = open_state_client(f"redis://127.0.0.1:{proxy.port}/2", timeout_ms=1_000)
        store = RedisContextStore(client, settle_ms=SETTLE_MS)
        first = store.commit(SCOPE, operation("0"), expected_version=None, next=context_of("a"))
        proxy.cut_reply_to(b"EVALSHA")
        call = committing(store, "1", first.version, "b")
        refused(call, "STATE_OUTCOME_UNKNOWN", OutcomeUnknown)
        own_server.start()
        again, stored = call(), store.get(SCOPE)
        assert stored is not None
        assert (again.version, again.replayed) == (stored.version, True)
        client.close()


def test_a_full_server_refuses_and_keeps_what_it_has(admin: StateClient) -> None:
    """Out of memory is STATE_BACKEND_FULL for commit and refuse; state, log and index stay byte for byte."""
    store = RedisContextStore(admin, settle_ms=SETTLE_MS)
    first = store.commit(SCOPE, operation("0"), expected_version=None, next=context_of("a"))
    before = everything(admin)
    admin.config_set("maxmemory", "1")
    call = committing(store, "1", first.version, "b")
    refused(call, "STATE_BACKEND_FULL", StateBackendError)
    refused(lambda: store.refuse(SCOPE, operation("2"), code="X"), "STATE_BACKEND_FULL", StateBackendError)
    with pytest.raises(redis.OutOfMemoryError):
        store.compare_and_set(SCOPE, first.version, context_of("b"))
    assert store.recall(SCOPE, operation("0")) is not None
    assert everything(admin) == before
    admin.config_set("maxmemory", "0")
    assert call().replayed is False


@pytest.mark.parametrize("key", [state_key(SCOPE), operations_key(SCOPE)], ids=["state", "log"])
def test_a_key_of_another_type_is_refused(admin: StateClient, key: str) -> None:
    """A list in place of the state or its log is STATE_BACKEND_REFUSED at once; nothing is written.

    The server's own words, which name users and keys, are not among the error's.
    """
    store = RedisContextStore(admin, settle_ms=60_000)
    admin.rpush(key, "x")
    before = everything(admin)
    call = committing(store, "1", None, "a")
    error = refused(call, "STATE_BACKEND_REFUSED", StateBackendError)
    assert "wrong kind of value" not in str(error)
    refused(lambda: store.refuse(SCOPE, operation("1"), code="X"), "STATE_BACKEND_REFUSED", StateBackendError)
    assert {k: v for k, v in everything(admin).items() if b"index" not in k} == before


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"7", b"null", b'"text"', b"[]", b"\xff", b"[" * 5_000, b'{"version":NaN}']
)
def test_a_corrupt_record_is_invalid_state(admin: StateClient, raw: bytes) -> None:
    """What is no record is INVALID_STATE to read, never replaced, and not taken for absent."""
    store = RedisContextStore(admin)
    admin.set(state_key(SCOPE), raw)
    refused(lambda: store.get(SCOPE), "INVALID_STATE")
    refused(lambda: store.compare_and_set(SCOPE, None, context_of("a")), "STATE_CONFLICT")
    refused(committing(store, "1", None, "a"), "STATE_CONFLICT")
    refused_any(lambda: store.compare_and_set(SCOPE, "v", context_of("a")))
    refused_any(lambda: store.commit(SCOPE, operation("1"), expected_version="v", next=context_of("a")))
    assert admin.get(state_key(SCOPE)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"version":"v"}',
        b'{"version":"v","context":{"items":[{"id":""}]}}',
        b'{"version":"","context":{"items":[]}}',
        b'{"version":7,"context":{"items":[]}}',
        b'{"context":{"items":[]}}',
        b'{"version":"v","context":{"items":[{"id":"a","content":' + b"[" * 201 + b"]" * 201 + b"}]}}",
    ],
)
def test_a_record_without_version_or_context_is_invalid_state(admin: StateClient, raw: bytes) -> None:
    """JSON that lacks a version or a valid context is INVALID_STATE to read."""
    admin.set(state_key(SCOPE), raw)
    refused(lambda: RedisContextStore(admin).get(SCOPE), "INVALID_STATE")


def refused_any(call: Callable[[], object]) -> None:
    """The call has to be refused, as a conflict or as an invalid state."""
    with pytest.raises(ContextError) as caught:
        call()
    assert caught.value.code in {"STATE_CONFLICT", "INVALID_STATE"}


def test_a_broken_index_fails_no_commit(admin: StateClient, caplog: pytest.LogCaptureFixture) -> None:
    """A commit whose note in the scope index fails succeeds, and a warning names the error's class."""
    store = RedisContextStore(admin)
    for shard in range(8):
        admin.set(f"ditto:context:index:{shard}", "not a sorted set", ex=60)
    done = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))
    assert done.version
    assert "index was not written: ResponseError" in caplog.text


def test_scripts_come_back_after_a_flush(admin: StateClient) -> None:
    """A server that has forgotten its scripts gets them again without the caller noticing."""
    store = RedisContextStore(admin)
    first = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))
    admin.script_flush()
    assert store.commit(SCOPE, operation("2"), expected_version=first.version, next=context_of("b")).version
    admin.script_flush()
    assert store.recall(SCOPE, operation("2")) is not None


def test_an_unanswering_server_is_not_waited_for_longer_than_the_timeout(tmp_path: Path) -> None:
    """A server that accepts and never answers is a timeout of the client, not a hang."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        client = open_state_client(f"unix://{tmp_path}/silent", timeout_ms=100)
        with pytest.raises(redis.TimeoutError):
            RedisContextStore(client).get(SCOPE)
        client.close()


def crash_and_start(server: EmbeddedServer) -> None:
    """What a supervisor does with a crashed server."""
    server.kill()
    server.start()
