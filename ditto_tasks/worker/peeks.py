"""Waiting for messages of many shards in the consumer's event loop, by peeks that move nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from celery.utils.log import get_logger

from ditto_tasks.sharding import shard_queue

if TYPE_CHECKING:
    from redis import Redis

logger = get_logger(__name__)

AWAY_S: Final = 1.0  # a broker that lets nobody connect is left alone for so long: each try blocks the loop
PEEK_S: Final = 10  # the server answers at the latest after that; 64 idle shards cost 6.4 answers a second


class EventLoop(Protocol):
    """What is used of kombu's hub; only in the loop's own thread."""

    def add_reader(self, fds: int, callback: Callable[..., object], *args: object) -> object: ...
    def remove_reader(self, fd: int) -> object: ...


class Peeks:
    """One blocking peek a shard: `BLMOVE q q RIGHT RIGHT` puts the head back where it was.

    A peek that outlives its purpose is harmless, so none is ever taken back. Not thread-safe: everything
    happens in the loop's thread. `on_message` may call `watch` again.
    """

    def __init__(self, client: Redis, loop: EventLoop, on_message: Callable[[int], object]) -> None:
        self._pool = client.connection_pool
        self._loop = loop
        self._on_message = on_message
        self._connections: dict[int, Any] = {}  # redis-py's connections, which have no public type
        self._waiting: set[int] = set()
        self._away_until_s = 0.0  # monotonic
        self._closed = False

    def watch(self, shard: int) -> None:
        """Call `on_message` once when there is a message, or after a while without one. Idempotent."""
        if shard in self._waiting or self._closed or time.monotonic() < self._away_until_s:
            return
        try:
            connection = self._connection(shard)
            queue = shard_queue(shard)
            connection.send_command("BLMOVE", queue, queue, "RIGHT", "RIGHT", PEEK_S)
        except Exception as exc:  # noqa: BLE001 -- the broker is away; the next nudge of the shards tries again
            self._failed(shard, exc)
        else:
            self._waiting.add(shard)

    def unwatch(self, shard: int) -> None:
        """Forget the shard, and close its connection so that the server forgets the peek."""
        self._waiting.discard(shard)
        connection = self._connections.pop(shard, None)
        if connection is not None:
            if connection._sock is not None:
                self._loop.remove_reader(connection._sock.fileno())
            connection.disconnect()
            self._pool.release(connection)

    def close(self) -> None:
        """Forget all shards, for good."""
        self._closed = True
        for shard in list(self._connections):
            self.unwatch(shard)

    def _connection(self, shard: int) -> Any:  # see above
        connection = self._connections.get(shard)
        if connection is None:
            connection = self._connect()
            self._connections[shard] = connection
            self._loop.add_reader(connection._sock.fileno(), self._readable, shard)
        return connection

    def _connect(self) -> Any:  # see above
        try:
            return cast("Any", self._pool.get_connection())
        except Exception:
            self._away_until_s = time.monotonic() + AWAY_S
            raise

    def _readable(self, shard: int) -> None:
        self._waiting.discard(shard)
        try:
            self._connections[shard].read_response()
        except Exception as exc:  # noqa: BLE001 -- as in `watch`
            self._failed(shard, exc)
        else:
            self._on_message(shard)

    def _failed(self, shard: int, error: Exception) -> None:
        logger.info("The peek of shard %d ended: %s", shard, type(error).__name__)
        self.unwatch(shard)
