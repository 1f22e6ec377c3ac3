"""Whose a task is and how it stands, asked without a thread."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ditto_tasks.client import AsyncDitto
from ditto_tasks.client.connections import open_async
from ditto_tasks.client.protocol import Finished
from ditto_tasks.client.waiting import ResultReader
from ditto_tasks.keys import Keys
from ditto_tasks.redis_replies import text

if TYPE_CHECKING:
    from redis.asyncio import Redis

CONNECTIONS: Final = 8  # of a loop to each server; a lookup holds one for a round trip


@dataclass(frozen=True, slots=True)
class Servers:
    """One loop's connections."""

    broker: Redis
    results: Redis
    reader: ResultReader
    deployment: str


class TaskLookup:
    """Looks tasks up for a client's deployment; each event loop has connections of its own."""

    def __init__(self, client: AsyncDitto) -> None:
        self._client = client
        self._servers: WeakKeyDictionary[asyncio.AbstractEventLoop, Servers] = WeakKeyDictionary()

    async def tenant(self, task_id: str) -> str | None:
        """The tenant that was stored when the task was published."""
        servers = await self._opened()
        stored = await servers.broker.get(Keys(servers.deployment).tenant(task_id))
        return None if stored is None else text(stored)

    async def end(self, task_id: str) -> Finished | None:
        """The end of a task, if it has ended."""
        servers = await self._opened()
        return servers.reader.decode(await servers.results.get(servers.reader.key(task_id)))

    async def close(self) -> None:
        """Close this loop's connections."""
        servers = self._servers.pop(asyncio.get_running_loop(), None)
        if servers is not None:
            await servers.broker.aclose()
            await servers.results.aclose()

    async def _opened(self) -> Servers:
        loop = asyncio.get_running_loop()
        if loop not in self._servers:
            self._servers.setdefault(loop, await self._client.in_order(self._open))
        return self._servers[loop]

    def _open(self) -> Servers:
        app = self._client.blocking.app
        return Servers(
            broker=open_async(str(app.conf.broker_url), connections=CONNECTIONS),
            results=open_async(str(app.conf.result_backend), connections=CONNECTIONS),
            reader=ResultReader(app),
            deployment=app.settings.connections.deployment,
        )
