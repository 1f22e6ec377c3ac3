"""Names of the keys through which the workers of a deployment agree; docs/operations.md lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ditto_tasks.sharding import shard_queue


def inflight_key(shard: int) -> str:
    """The list that holds the one message of a shard that is in work."""
    return f"{shard_queue(shard)}:inflight"


def dead_key(queue: str) -> str:
    """The list of a queue's dead letters, newest first."""
    return f"{queue}:dead"


@dataclass(frozen=True, slots=True)
class Keys:
    """Coordination keys of one deployment, in the broker's database."""

    deployment: str

    @property
    def shard_count(self) -> str:
        """String: N, written once by the first process that needs it."""
        return f"ditto:{self.deployment}:shards:count"

    @property
    def workers(self) -> str:
        """Sorted set: owner id, scored by when it stops counting as alive (server's ms)."""
        return f"ditto:{self.deployment}:workers"

    @property
    def changes(self) -> str:
        """Pub/sub channel (no key): a worker joined or left, or a shard was released."""
        return f"ditto:{self.deployment}:changes"

    def lease(self, shard: int) -> str:
        """String with a TTL: the owner id."""
        return f"ditto:{self.deployment}:lease:{shard}"

    def shard(self, shard: int) -> str:
        """Hash {epoch, owner, moves, seq, started?, deaths?, tried?}: what outlives a lease."""
        return f"ditto:{self.deployment}:shard:{shard}"

    def worker(self, owner: str) -> str:
        """String with a TTL: the worker's last report of its health, as JSON."""
        return f"ditto:{self.deployment}:worker:{owner}"


# Headers that only a shard's channel writes: what a sender puts there is dropped.
EPOCH_HEADER: Final = "ditto_epoch"  # the fencing token of the lease
REFUSE_HEADER: Final = "ditto_refuse"  # the code to end with, unless the operation's outcome is known
CHANNEL_HEADERS: Final = (EPOCH_HEADER, REFUSE_HEADER)
SENT_HEADER: Final = "ditto_sent"  # the sender's clock, epoch ms: for showing ages, never for leases
SCOPE_HEADER: Final = "ditto_scope"
TENANT_HEADER: Final = "ditto_tenant"  # whose call it is, where that is known
