"""The lease loop: a thread that keeps this worker's shards while its consumer loop is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ditto_tasks.errors import SettingsError
from ditto_tasks.worker.assignment import assign
from ditto_tasks.worker.scripts import Claim, ShardScripts

RENEWALS: Final = 3  # a lease: two renewals may fail before it lapses
LOOP_STALL_S: Final = 5.0  # a consumer loop that has not ticked for so long holds its shards for nothing


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


class Leases:
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
        for shard in held.keys() - wanted:
            self._holder.drain(shard)

    def leave(self) -> None:
        """Count as alive no more; leases that are still held go on being renewed until they are released."""
        self._leaving.set()
        self._scripts.leave()

    def _wanted(self) -> set[int]:
        """The shards that should be this worker's and are, or that nobody holds."""
        seen = self._scripts.heartbeat(self._count)
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


def check_shard_count(configured: int, stored: int) -> None:
    """SettingsError SHARD_COUNT_MISMATCH unless the deployment has the number of shards that is configured."""
    if configured != stored:
        raise SettingsError(
            "SHARD_COUNT_MISMATCH",
            f"runtime.shards.count is {configured}, but this deployment has {stored} shards",
            {"configured": configured, "stored": stored},
        )


class LeaseThread(threading.Thread):
    """Runs `step` now, then after each `wait`, until `stop`; errors of a step go to `on_error`."""

    def __init__(
        self,
        step: Callable[[], None],
        *,
        wait: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        super().__init__(name="ditto-leases", daemon=True)
        self._step = step
        self._wait = wait
        self._on_error = on_error
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._step()
                self._wait()
            except Exception as exc:  # noqa: BLE001 -- a thread that died would hold or lose leases silently
                self._on_error(exc)

    def stop(self) -> None:
        """End after the step or wait that is under way."""
        self._stopped.set()
