"""The store on Redis or Valkey >= 6.2, and clients for it: the only file here that knows redis-py."""

import logging
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel

from ditto_tasks.errors import StateBackendError
from ditto_tasks.lines import Command
from ditto_tasks.state.addresses import ServerAddress, parse_address
from ditto_tasks.state.commands import (
    Commands,
    ForeignClient,
    ForeignCommands,
    IndexNote,
    as_bytes,
    unavailable,
)
from ditto_tasks.state.encoding import KEY_PREFIX
from ditto_tasks.state.operations import OPERATIONS_KEPT
from ditto_tasks.state.scripted import SETTLE_MS, TTL_MS, ScriptedContextStore
from ditto_tasks.state.scripts import Script

_log = logging.getLogger(__name__)

StateClient: TypeAlias = Redis | RedisCluster

TIMEOUT_MS: Final = 5_000  # for connecting and for each reply
_TLS_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False}

# Answers of a server that cannot serve just now: worth another try, as no answer is.
_PASSING: Final = (ClusterDownError, ReadOnlyError, TryAgainError)
_OF_SOCKETS: Final = (ConnectionError, TimeoutError, socket.gaierror, ssl.SSLError)  # no file's
_LOGIN: Final = (AuthenticationError, AuthorizationError)


class RedisContextStore(ScriptedContextStore):
    """`ContextStateStore` and `OperationLog` on a client that stays the caller's: it is never closed here.

    redis-py clients (also of a cluster) send scripts by SHA-1 and keep the scope index. Any other object
    with `get(key)` and `eval(script, keys, args)` works too. Use `open_state_client` for the client: one
    that repeats commands by itself, as redis-py does by default, turns a lost reply into STATE_CONFLICT.
    `ttl_ms` counts from the last write, `operation_ids` is how many outcomes a scope's log keeps, `settle_ms`
    how long a lost reply is asked after. Errors are ContextError, StateBackendError and OutcomeUnknown.
    Without `renew_ttl` commits leave a state the time that it has left; for changes that nobody asked for.
    """

    def __init__(
        self,
        client: StateClient | ForeignClient,
        *,
        ttl_ms: int = TTL_MS,
        key_prefix: str = KEY_PREFIX,
        operation_ids: int = OPERATIONS_KEPT,
        settle_ms: int = SETTLE_MS,
        renew_ttl: bool = True,
    ) -> None:
        super().__init__(
            self._commands_of(client),
            ttl_ms=ttl_ms,
            key_prefix=key_prefix,
            operation_ids=operation_ids,
            settle_ms=settle_ms,
            renew_ttl=renew_ttl,
        )

    @staticmethod
    def _commands_of(client: StateClient | ForeignClient) -> Commands:
        return RedisCommands(client) if isinstance(client, Redis | RedisCluster) else ForeignCommands(client)


class RedisCommands:
    """The store's commands on a redis-py client."""

    def __init__(self, client: StateClient) -> None:
        self._client = client
        self._index = Script.load("index")
        self.one_server = not isinstance(client, RedisCluster)

    def get(self, key: str) -> bytes | None:
        return as_bytes(self._client.get(key))

    def run(
        self,
        script: Script,
        keys: Sequence[str],
        arguments: Sequence[str | bytes],
        note: IndexNote | None = None,
    ) -> object:
        if note is None:
            return self._run(script, keys, arguments)
        if not self.one_server:
            reply = self._run(script, keys, arguments)  # the index may be on another node
            self._try_note(note)
            return reply
        return self._run_noting(script, keys, arguments, note)

    def is_refusal(self, error: Exception) -> bool:
        return _is_refusal(error)

    def translate(self, error: Exception) -> StateBackendError:
        return _translate(error)

    def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes]) -> object:
        try:
            return self._client.evalsha(script.sha1, len(keys), *keys, *arguments)
        except NoScriptError:  # first use on this server; it keeps the script from now on
            return self._client.eval(script.text, len(keys), *keys, *arguments)

    def _run_noting(
        self, script: Script, keys: Sequence[str], arguments: Sequence[str | bytes], note: IndexNote
    ) -> object:
        """Script and note in one round trip."""
        call = ("EVALSHA", script.sha1, len(keys), *keys, *arguments)
        noting = ("EVALSHA", self._index.sha1, 1, note.key, note.member, str(note.ttl_ms))
        reply, noted = self._ask(call, noting)
        if isinstance(noted, Exception):
            self._try_note(note)
        if isinstance(reply, NoScriptError):
            return self._client.eval(script.text, len(keys), *keys, *arguments)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _ask(self, *commands: Command) -> list[object]:
        """The replies of several commands, the server's errors among them, in one round trip."""
        with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return pipeline.execute(raise_on_error=False)

    def write_note(self, note: IndexNote) -> None:
        """Note a scope in the index; the client's errors pass."""
        self._run(self._index, [note.key], [note.member, str(note.ttl_ms)])

    def _try_note(self, note: IndexNote) -> None:
        try:
            self.write_note(note)
        except (RedisError, OSError) as error:
            # The state is written and the index can be rebuilt: the mutation must not look failed.
            _log.warning("the scope index was not written: %s", type(error).__name__)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turns redis-py's errors, and a socket's, into StateBackendError, as a task has to; all others pass."""
    try:
        yield
    except (RedisError, *_OF_SOCKETS) as error:
        raise _translate(error) from error


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, (ResponseError, *_LOGIN)) and not isinstance(error, _PASSING)


def _translate(error: Exception) -> StateBackendError:
    name = type(error).__name__
    if isinstance(error, OutOfMemoryError):
        return StateBackendError("STATE_BACKEND_FULL", "the state server has no memory left")
    if _is_refusal(error):
        return StateBackendError("STATE_BACKEND_REFUSED", f"the state server refused a command ({name})")
    return unavailable(error)


def open_state_client(
    url: str, *, timeout_ms: int = TIMEOUT_MS, max_connections: int | None = None
) -> StateClient:
    """A client for the state server at `url` (the forms are in `addresses`); connects when first used,
    a cluster's client at once.

    It repeats nothing by itself. The caller closes it. SettingsError for an unusable URL.
    """
    address = parse_address(url)
    options = _connection_options(address, timeout_ms / 1000)
    if max_connections is not None:
        options["max_connections"] = max_connections
    if address.kind == "sentinel":
        return _sentinel_client(address, options)
    if address.kind == "cluster":
        nodes = [ClusterNode(*host) for host in address.hosts]  # type: ignore[no-untyped-call]  # untyped in redis-py
        return RedisCluster(startup_nodes=nodes, ssl=address.tls, **options)
    return Redis.from_pool(_pool(address, options))


# The drivers' constructors take keyword arguments of many types: only there `Any` is of use.
def _connection_options(address: ServerAddress, timeout_s: float) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": address.username,
        "password": address.password,
        "socket_connect_timeout": timeout_s,
        "socket_timeout": timeout_s,
        "retry": Retry(NoBackoff(), 0),
    }
    if address.kind != "socket":
        options["socket_keepalive"] = True
    if address.tls:
        options |= {name: _TLS_FLAGS.get(value, value) for name, value in address.tls_options()}
    return options


def _pool(address: ServerAddress, options: dict[str, Any]) -> ConnectionPool:
    if address.kind == "socket":
        kind: Callable[..., AbstractConnection] = UnixDomainSocketConnection
        place: dict[str, Any] = {"path": address.path}
    else:
        kind = SSLConnection if address.tls else Connection
        place = dict(zip(("host", "port"), address.hosts[0], strict=True))
    return ConnectionPool(kind, db=address.db, **place, **options)


def _sentinel_client(address: ServerAddress, options: dict[str, Any]) -> Redis:
    login = {"username": address.option("sentinel_username"), "password": address.option("sentinel_password")}
    about = {**options, "ssl": address.tls}
    watchers = Sentinel(address.hosts, sentinel_kwargs=about | login)  # type: ignore[no-untyped-call]  # as above
    client: Redis = watchers.master_for(address.service, db=address.db, **about)  # type: ignore[no-untyped-call]  # as above
    return client
