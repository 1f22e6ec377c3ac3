"""The lease protocol of one worker: which shards it should have, and what it does about it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ditto_tasks.errors import SettingsError
from ditto_tasks.worker.assignment import assign
from ditto_tasks.worker.scripts import Claim, ShardScripts

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import PubSub

RENEWALS: Final = 3  # a lease: two renewals may fail before it lapses
LOOP_STALL_S: Final = 5.0  # a consumer loop that has not ticked for so long holds its shards for nothing
SETTLE_S: Final = 0.02  # changes come in bursts, one for each shard of a worker that stops


class ShardHolder(Protocol):
    """Who serves the shards whose leases the loop keeps. Called from the lease thread only."""

    def held(self) -> Mapping[int, int]:
        """Shard -> epoch of the shards held, those that are being drained included."""

    def gain(self, shard: int, epoch: int) -> None:
        """The shard is this worker's from now on; also called when its epoch changed."""

    def lose(self, shard: int) -> None:
        """Somebody else has the shard."""

    def drain(self, shard: int) -> None:
        """Take no further message, and release the shard once its last one has ended. Idempotent."""


class LeaseLoop:
    """One round of the lease protocol at a time; `owner` is this process's id for its whole life."""

    def __init__(self, scripts: ShardScripts, holder: ShardHolder, *, owner: str, shard_count: int) -> None:
        self._scripts = scripts
        self._holder = holder
        self._owner = owner
        self._count = shard_count
        self._leaving = threading.Event()

    def round(self) -> None:
        """Report to be alive, renew what is held, drain what others should have, take what is free."""
        held = self._holder.held()
        wanted = set() if self._leaving.is_set() else self._wanted()
        claims = self._scripts.claim(sorted(held.keys() | wanted))
        for shard, claim in claims.items():
            self._settle(shard, claim, held.get(shard))
        for shard in self._holder.held().keys() - wanted:
            self._holder.drain(shard)

    def leave(self) -> None:
        """Count as alive no more; leases that are still held go on being renewed until they are released."""
        self._leaving.set()
        self._scripts.leave()

    def _wanted(self) -> set[int]:
        """The shards that should be this worker's and are, or that nobody holds."""
        seen = self._scripts.heartbeat(self._count)
        check_deployment(self._scripts.deployment, seen.deployment)
        check_shard_count(self._count, seen.shard_count)
        owners = self._scripts.owners(self._count)
        target = assign(seen.workers, self._count, owners)
        mine = {shard for shard, worker in target.items() if worker == self._owner}
        return {shard for shard in mine if owners.get(shard, self._owner) == self._owner}

    def _settle(self, shard: int, claim: Claim, known: int | None) -> None:
        if claim.owner == self._owner:
            if claim.epoch != known:
                self._holder.gain(shard, claim.epoch)
        elif known is not None:
            self._holder.lose(shard)


def check_deployment(configured: str, stored: str | None) -> None:
    """SettingsError DEPLOYMENT_MISMATCH if the shards of this broker's database are another deployment's."""
    if stored not in (None, configured):
        raise SettingsError(
            "DEPLOYMENT_MISMATCH",
            f"DITTO_DEPLOYMENT is {configured}, but this broker's shards are those of {stored}: "
            "each deployment needs a database of its own",
            {"configured": configured, "stored": stored},
        )


def check_shard_count(configured: int, stored: int) -> None:
    """SettingsError SHARD_COUNT_MISMATCH unless the deployment has as many shards as are configured."""
    if configured != stored:
        raise SettingsError(
            "SHARD_COUNT_MISMATCH",
            f"runtime.shards.count is {configured}, but this deployment has {stored} shards",
            {"configured": configured, "stored": stored},
        )


class Changes:
    """Waits for word of other workers: a release or a newcomer is acted on at once, not a renewal later."""

    def __init__(self, client: Redis, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._heard: PubSub | None = None

    def wait(self, timeout_s: float) -> None:
        """Return at a change or after `timeout_s`. Raises the client's errors."""
        if self._heard is None:
            heard = self._client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]  # redis-py
            heard.subscribe(self._channel)
            self._heard = heard  # not before: one that could not subscribe hears nothing and never fails
        try:
            if self._heard.get_message(timeout=timeout_s) is not None:
                time.sleep(SETTLE_S)
                while self._heard.get_message(timeout=0) is not None:
                    pass
        except Exception:
            self._heard = None  # the next wait connects again
            raise

    def wake(self) -> None:
        """End the `wait` of another thread, and those of other workers, which look and find nothing new."""
        self._client.publish(self._channel, "wake")
