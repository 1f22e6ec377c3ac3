"""The clients' own connections to Redis: one file, since drivers are imported in one file each."""

from __future__ import annotations

from typing import Any, Final

import redis
import redis.asyncio
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection

from ditto_tasks.errors import SettingsError
from ditto_tasks.state.addresses import ServerAddress, parse_address
from ditto_tasks.worker.addresses import SENTINEL

TIMEOUT_S: Final = 10.0  # of connecting, and of an answer that is not waited for
HEALTH_CHECK_S: Final = 15.0  # a subscription that hears nothing asks this often whether it is still there

RECONNECT_S: Final = 0.2
LOOK_AGAIN_S: Final = 5.0  # a message can be lost with its connection, a stored result cannot
CONNECTION_ERRORS: Final = (redis.ConnectionError, redis.TimeoutError, OSError)


def open_async(url: str, *, connections: int) -> redis.asyncio.Redis:
    """A client of the server at `url` for one event loop; connects when first used."""
    if url.startswith(SENTINEL):
        raise _unsupported("sentinel")
    address = parse_address(url)
    options = {**_options(address), "max_connections": connections, "timeout": None}
    pool = redis.asyncio.BlockingConnectionPool(connection_class=_kind(address), **options)
    return redis.asyncio.Redis.from_pool(pool)


def _kind(address: ServerAddress) -> type[Any]:  # redis-py's connection classes share no public base
    if address.kind == "socket":
        return UnixDomainSocketConnection
    return SSLConnection if address.tls else Connection


def _options(address: ServerAddress) -> dict[str, Any]:  # keyword arguments of the connection classes
    options = {
        "username": address.username,
        "password": address.password,
        "db": address.db,
        "socket_connect_timeout": TIMEOUT_S,
        "health_check_interval": HEALTH_CHECK_S,
        **dict(address.tls_options()),
    }
    match address.kind:
        case "socket":
            return {**options, "path": address.path}
        case "single":
            ((host, port),) = address.hosts
            return {**options, "host": host, "port": port, "socket_timeout": TIMEOUT_S}
    raise _unsupported(address.kind)


def _unsupported(kind: str) -> SettingsError:
    message = f"event loops cannot wait on a {kind} address for results and events; `Ditto` can"
    return SettingsError("UNSUPPORTED_URL", message)
