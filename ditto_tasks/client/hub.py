"""All awaited results of one event loop over one subscription, without a thread a call.

A channel's confirmation makes the hub look at the stored result, so one that was there before is not
missed; after a lost connection everything awaited is subscribed again, and so looked at again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ditto_tasks.client.connections import CONNECTION_ERRORS, LOOK_AGAIN_S, RECONNECT_S, open_async
from ditto_tasks.client.protocol import Finished
from ditto_tasks.redis_replies import text

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from redis.asyncio.client import PubSub

LOOKED_AT_ONCE: Final = 500  # keys of one MGET, so that a reply stays small enough for the loop

NOTHING: Final = "ditto:nothing"  # a channel that nobody uses: a subscription to none cannot be read

Decode = Callable[[object], Finished | None]


class ResultHub:
    """Waits for stored results; belongs to the loop in which it is used."""

    def __init__(self, url: str, key: Callable[[str], str], decode: Decode) -> None:
        self._client: Redis = open_async(url, connections=2)  # the subscription and the looks
        self._key = key
        self._decode = decode
        self._waiting: dict[str, set[asyncio.Future[Finished]]] = defaultdict(set)
        self._unseen: set[str] = set()
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._subscription: PubSub | None = None
        self._running: asyncio.Task[None] | None = None

    async def wait(self, task_id: str) -> Finished:
        """The end of a task."""
        key = self._key(task_id)
        future: asyncio.Future[Finished] = asyncio.get_running_loop().create_future()
        first = not self._waiting[key]
        self._waiting[key].add(future)
        try:
            if self._running is None:
                self._running = asyncio.create_task(self._run())
            elif first:
                await self._subscribe(key)
            else:
                self._see([key])
            return await future
        finally:
            await self._leave(key, future)

    async def close(self) -> None:
        """End the subscription; what is still awaited is cancelled."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self._end()  # again: a task that is cancelled before it began runs no `finally`

    async def _run(self) -> None:
        """Listen and look until cancelled, be it by `close` or by the end of the loop."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen())
                tasks.create_task(self._look())
        finally:
            await self._end()

    async def _end(self) -> None:
        for future in [future for futures in self._waiting.values() for future in futures]:
            future.cancel()
        await self._client.aclose()

    async def _leave(self, key: str, future: asyncio.Future[Finished]) -> None:
        self._waiting[key].discard(future)
        if not self._waiting[key]:
            del self._waiting[key]
            if self._subscription is not None:
                await self._send(self._subscription.unsubscribe, key)

    async def _subscribe(self, key: str) -> None:
        if self._subscription is not None:  # else the listener subscribes to all once it is connected
            await self._send(self._subscription.subscribe, key)

    async def _send(self, command: Callable[[str], Awaitable[None]], key: str) -> None:
        """Over the subscription; where that fails the listener sees it too, and subscribes to all again."""
        before = _cancellations()
        with suppress(*CONNECTION_ERRORS):
            async with self._writing:
                await command(key)
        if _cancellations() > before:  # redis-py swallowed it, and what is awaited next would not end
            raise asyncio.CancelledError

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except CONNECTION_ERRORS:
                await _pause()

    async def _hear(self) -> None:
        async with self._client.pubsub() as subscription:
            self._subscription = subscription
            try:
                async with self._writing:  # whoever comes while this connects subscribes after it
                    await subscription.subscribe(NOTHING, *self._waiting)
                while True:
                    self._take(await subscription.get_message(timeout=LOOK_AGAIN_S))
                    _end_if_cancelled()
            finally:
                self._subscription = None

    def _take(self, message: dict[str, object] | None) -> None:
        if message is None:
            self._see(self._waiting)
        elif message["type"] == "subscribe":
            self._see([text(message["channel"])])
        elif message["type"] == "message":
            self._tell(text(message["channel"]), message["data"])

    def _see(self, keys: Iterable[str]) -> None:
        self._unseen.update(key for key in keys if key in self._waiting)
        self._news.set()

    async def _look(self) -> None:
        while True:
            _end_if_cancelled()
            await self._news.wait()
            self._news.clear()
            keys = [self._unseen.pop() for _ in range(min(len(self._unseen), LOOKED_AT_ONCE))]
            if self._unseen:
                self._news.set()
            try:
                stored = await self._client.mget(keys) if keys else []
            except CONNECTION_ERRORS:
                await _pause()
                self._see(keys)
                continue
            for key, data in zip(keys, stored, strict=True):
                if data is not None:
                    self._tell(key, data)

    def _tell(self, key: str, data: object) -> None:
        waiting = [future for future in self._waiting.get(key, ()) if not future.done()]
        end = self._decode(data) if waiting else None
        if end is not None:
            for future in waiting:
                future.set_result(end)


async def _pause() -> None:
    _end_if_cancelled()
    await asyncio.sleep(RECONNECT_S)


def _end_if_cancelled() -> None:
    """End a task of which redis-py took the cancellation for a timeout of its own."""
    if _cancellations():
        raise asyncio.CancelledError


def _cancellations() -> int:
    """How often the running task was asked to end, and did not say that it goes on."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
