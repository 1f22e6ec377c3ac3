"""Broker connections whose channels are guarded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kombu import Connection
from kombu.connection import ConnectionPool, PooledConnection
from kombu.utils.imports import symbol_by_name

# by name: importing the transport imports its driver, which only a connection needs
GUARDED: Final[Mapping[str, str]] = {
    "redis": "ditto_tasks.worker.guard:GuardedTransport",
    "rediss": "ditto_tasks.worker.guard:GuardedTransport",
    "sentinel": "ditto_tasks.worker.guard:GuardedSentinelTransport",
}


class GuardedConnection(Connection):
    """A broker connection whose transport is the guarded form of the one that the URL names."""

    def get_transport_cls(self) -> Any:  # kombu's edge
        guarded = GUARDED.get(self.transport_cls) if isinstance(self.transport_cls, str) else None
        return super().get_transport_cls() if guarded is None else symbol_by_name(guarded)

    def Pool(self, limit: int | None = None, **options: Any) -> GuardedPool:  # noqa: N802 -- kombu's name
        """A pool of connections like this one; kombu's own would hold plain ones."""
        return GuardedPool(self, limit, **options)


class GuardedPooledConnection(GuardedConnection, PooledConnection):
    """What a publisher has."""


class GuardedPool(ConnectionPool):
    """kombu's pool, of guarded connections."""

    def new(self) -> GuardedPooledConnection:
        options: dict[str, Any] = dict(self.connection._info(resolve=False))
        return GuardedPooledConnection(pool=self, **options)
