"""What a worker does while the state store is unreachable: nothing, so that no message loses its place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from celery.utils.log import get_logger

from ditto_tasks.redis_replies import clock_ms
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.inspection import deadline_ms, sent_ms
from ditto_tasks.worker.shards import Shards

if TYPE_CHECKING:
    from redis import Redis

logger = get_logger(__name__)

PROBE_S: Final = 1.0
FIRST_PROBE_S: Final = 0.05  # most outages are one broken connection
RELAPSE_S: Final = 30.0  # longer than a task takes to find the store away: an outage so soon is the same one
CODE: Final = "STATE_BACKEND_UNAVAILABLE"


class Outage:
    """Pauses the shards, asks the store each second, and resumes them. One thread, while it lasts."""

    def __init__(
        self,
        shards: Shards,
        client: Redis,
        is_reachable: Callable[[], bool],
        *,
        patience_ms: int,
    ) -> None:
        self._shards = shards
        self._client = client
        self._is_reachable = is_reachable
        self._patience_ms = patience_ms
        self._lock = threading.Lock()
        self._since_s = self._ended_s = -RELAPSE_S
        self.lasts = False  # read by the health report

    def begin(self) -> None:
        """A task found the store unreachable. Idempotent while the outage lasts."""
        with self._lock:
            if self.lasts:
                return
            self.lasts = True
            now_s = time.monotonic()
            relapsed = now_s - self._ended_s < RELAPSE_S
            if not relapsed:
                self._since_s = now_s
        logger.warning("The state store is unreachable: shards pause")
        self._shards.pause()
        threading.Thread(target=self._probe, args=(relapsed,), name="ditto-outage", daemon=True).start()

    def _probe(self, relapsed: bool) -> None:
        time.sleep(PROBE_S if relapsed else FIRST_PROBE_S)
        while not (reachable := self._is_reachable()) or relapsed:
            self._look_at_heads()
            if reachable:
                break
            time.sleep(PROBE_S)
        lasting_s = time.monotonic() - self._since_s
        with self._lock:
            self._ended_s = time.monotonic()
            self.lasts = False
        logger.warning("The state store is back after %.0f s: shards resume", lasting_s)
        self._shards.resume()

    def _look_at_heads(self) -> None:
        try:
            self._refuse_overdue((time.monotonic() - self._since_s) * 1000)
        except Exception as exc:  # noqa: BLE001 -- a thread that died here would leave the shards paused
            logger.warning("Overdue messages were not looked at: %s", type(exc).__name__)

    def _refuse_overdue(self, lasting_ms: float) -> None:
        """Let the heads that waited too long have their last try, each after the one before it."""
        now_ms = clock_ms(self._client.time())
        for shard, head in self._heads():
            if self._is_overdue(head, now_ms, lasting_ms):
                self._shards.refuse_head(shard, head, CODE)

    def _is_overdue(self, head: bytes, now_ms: int, lasting_ms: float) -> bool:
        """Past its own deadline, else past our patience; a sender's clock alone can't make it so."""
        deadline = deadline_ms(head)
        if deadline is not None:
            return now_ms > deadline
        sent = sent_ms(head)
        waited_ms = lasting_ms if sent is None else min(lasting_ms, now_ms - sent)
        return waited_ms > self._patience_ms

    def _heads(self) -> Iterator[tuple[int, bytes]]:
        for shard in self._shards.idle():
            head = self._client.lindex(shard_queue(shard), -1)
            if head is not None:
                yield shard, head if isinstance(head, bytes) else head.encode()
