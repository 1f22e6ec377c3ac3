"""What serves shards in one worker process, put together: leases, deliveries, outages, the health report."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from celery.utils.log import get_logger

from ditto_tasks.errors import SettingsError
from ditto_tasks.json_values import encode
from ditto_tasks.keys import Keys
from ditto_tasks.state.redis import open_state_client
from ditto_tasks.worker.addresses import broker_address
from ditto_tasks.worker.inspection import WorkerReport
from ditto_tasks.worker.leases import LOOP_STALL_S, RENEWALS, Changes, LeaseLoop
from ditto_tasks.worker.outage import Outage
from ditto_tasks.worker.peeks import Peeks
from ditto_tasks.worker.scripts import ShardScripts
from ditto_tasks.worker.shard_channel import ConsumerOutlet, ShardChannel
from ditto_tasks.worker.shards import Shards
from ditto_tasks.worker.signals import on_shard_tick

if TYPE_CHECKING:
    from redis import Redis

    from ditto_tasks.dependencies import Dependencies

logger = get_logger(__name__)

TICK_S: Final = 1.0
OTHER_CONNECTIONS: Final = 1_000  # beside a peek a shard: one for each thread of the pool
END_S: Final = 5.0  # a lease thread whose broker answers nothing is not waited for longer


class ShardService:
    """Lives as long as the worker process, over all reconnects of its consumer."""

    def __init__(
        self, consumer: Any, *, takes_shards: bool, on_fatal: Callable[[Exception], None]
    ) -> None:  # Celery's
        app, settings = consumer.app, consumer.app.settings
        config = settings.runtime.shards
        self._app = app
        self._hostname = consumer.hostname
        self._owner = f"{consumer.hostname}:{os.getpid()}:{uuid4().hex[:8]}"
        self._takes_shards = takes_shards
        self._on_fatal = on_fatal
        self._lease_s = config.lease_ms / 1000
        url, keys = broker_address(app.conf), Keys(settings.connections.deployment)
        # A lease client that waits or repeats would renew too late what it believes to hold.
        self._lease_client = _client(url, timeout_ms=config.lease_ms // RENEWALS)
        self._client = _client(url, max_connections=config.count + OTHER_CONNECTIONS)
        self._lease_scripts = self._scripts_of(self._lease_client, keys)
        self._scripts = self._scripts_of(self._client, keys)
        ask = partial(self._scripts.lines.ask, again=True)
        app.coordination = replace(app.coordination, line=ask)
        self.shards = Shards(
            self._scripts, count=config.count, mutation_timeout_s=config.mutation_timeout_ms / 1000
        )
        self._loop = LeaseLoop(self._lease_scripts, self.shards, owner=self._owner, shard_count=config.count)
        self._changes = Changes(self._lease_client, keys.changes)
        self._outage = Outage(
            self.shards, self._client, self._state_is_reachable, patience_ms=config.outage_patience_ms
        )
        self._channel = ShardChannel(self.shards, self._client, keys, self._outage.begin)
        self._outlet: ConsumerOutlet | None = None
        self._ticked_s = time.monotonic()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._lease_thread = threading.Thread(target=self._keep_leases, name="ditto-leases", daemon=True)
        self._sweep_thread = threading.Thread(target=self._sweep, name="ditto-shard-tick", daemon=True)

    def start(self) -> None:
        """Begin to keep leases. Once."""
        self._lease_thread.start()
        self._sweep_thread.start()

    def attach(self, consumer: Any) -> None:  # Celery's edge
        """The consumer is connected (again)."""
        self._tick()
        consumer.timer.call_repeatedly(TICK_S, self._tick)  # Celery cancels it when the connection is lost
        peeks = Peeks(self._client, consumer.hub, self.shards.advance)
        self._outlet = ConsumerOutlet(consumer, self._channel, peeks, self._scripts)
        self.shards.attach(self._outlet)

    def detach(self) -> None:
        """The consumer lost its connection. Leases are kept for as long as that may be a short matter."""
        self.shards.detach()
        if self._outlet is not None:
            self._outlet.close()
            self._outlet = None

    def give_back_all_but(self, task_ids: Collection[str]) -> None:
        """Put the messages of all other tasks back to their shards: the pool has forgotten them."""
        self._channel.give_back_all_but(task_ids)

    def leave(self) -> None:
        """Let others have the shards, each as soon as its task has ended. Waits for no task: idempotent.

        The pool waits for its tasks. One of processes reads in the consumer's thread that they have ended,
        so whoever waits for them there waits for ever.
        """
        self._stopping.set()
        self._guarded(self._loop.leave)
        self.shards.drain_all()
        self.detach()

    def end(self) -> None:
        """No task of this worker runs any more: let others have what is still held."""
        self.leave()  # not yet done if the worker stops while it connects
        self.shards.nudge(give_up=True)  # what ended while the broker was away
        self.shards.release_all()
        self._ended.set()
        if self._lease_thread.is_alive():
            self._guarded(self._changes.wake)
            self._lease_thread.join(END_S)

    # the lease thread

    def _keep_leases(self) -> None:
        while not self._has_left():
            started_s = time.monotonic()
            self._guarded(self._round)
            self._guarded(self._wait, started_s + self._lease_s / RENEWALS)
        self._guarded(self._lease_scripts.withdraw_report)

    def _has_left(self) -> bool:
        return self._ended.is_set() or (self._stopping.is_set() and not self.shards.held())

    def _round(self) -> None:
        self._lease_scripts.report(encode(asdict(self._report())))
        if not self._takes_shards:
            return
        if self._loop_age_s() > LOOP_STALL_S and not self._stopping.is_set():
            logger.warning("The consumer loop stands still: leases are not renewed")
            return
        self._loop.round()
        self.shards.end_overdue()
        self.shards.nudge()

    def _wait(self, until_s: float) -> None:
        if self._has_left():
            return
        try:
            self._changes.wait(max(0.0, until_s - time.monotonic()))
        except Exception:
            self._ended.wait(max(0.0, until_s - time.monotonic()))
            raise

    def _guarded(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except SettingsError as exc:
            self._on_fatal(exc)
            self._ended.set()
        except Exception as exc:  # noqa: BLE001 -- a lease thread that died would lose its shards in silence
            logger.warning("A round of leases failed and is tried again: %s", type(exc).__name__)

    # the others

    def _sweep(self) -> None:
        while not self._ended.wait(self._lease_s):
            shards = frozenset(self.shards.held())
            if shards:
                on_shard_tick.send(sender=self._app, shards=shards)

    def _tick(self) -> None:
        self._ticked_s = time.monotonic()

    def _loop_age_s(self) -> float:
        return time.monotonic() - self._ticked_s

    def _report(self) -> WorkerReport:
        return WorkerReport(
            owner=self._owner,
            hostname=self._hostname,
            host=socket.gethostname(),
            pid=os.getpid(),
            takes_shards=self._takes_shards,
            shards=len(self.shards.held()),
            loop_age_ms=int(self._loop_age_s() * 1000),
            paused=self._outage.lasts,
        )

    def _state_is_reachable(self) -> bool:
        dependencies = cast("Dependencies", self._app.dependencies)
        try:
            dependencies.context().ping()
        except Exception:  # noqa: BLE001 -- whatever a client raises, the store can't be used
            return False
        return True

    def _scripts_of(self, client: Redis, keys: Keys) -> ShardScripts:
        return ShardScripts(client, keys, owner=self._owner, lease_ms=int(self._lease_s * 1000))


def _client(url: str, **options: int) -> Redis:
    return cast("Redis", open_state_client(url, **options))  # kombu's brokers are no clusters
