"""Which shard a scope belongs to, and the queue of that shard. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

SHARD_QUEUES: Final = "ditto.ctx"  # also the pseudo-queue of `-Q` that stands for taking shards

DEPLOYMENT_KEY: Final = "ditto.ctx:deployment"  # whose shards these are: queues are called the same in all


def shard_of(scope_key: str, count: int) -> int:
    """The shard of a scope; `scope_key` is `scope:<hex>`, `count` the deployment's fixed number of shards."""
    return int.from_bytes(sha256(scope_key.encode()).digest()[:8], "big") % count


def shard_queue(shard: int) -> str:
    """The queue of one shard: `ditto.ctx.<n>`."""
    return f"{SHARD_QUEUES}.{shard}"


def is_shard_queue(queue: str) -> bool:
    """True for the queue of any shard, and only for those (not for its dead letters)."""
    prefix, _, number = queue.rpartition(".")
    return prefix == SHARD_QUEUES and number.isdecimal()
