"""Names of what hangs on a queue, and of the headers of messages; `ditto_tasks.keys` has all other keys."""

from __future__ import annotations

from typing import Final

from ditto_tasks.sharding import shard_queue


def inflight_key(shard: int) -> str:
    """The list that holds the one message of a shard that is in work."""
    return f"{shard_queue(shard)}:inflight"


def dead_key(queue: str) -> str:
    """The list of a queue's dead letters, newest first."""
    return f"{queue}:dead"


# Headers that only a shard's channel writes: what a sender puts there is dropped.
EPOCH_HEADER: Final = "ditto_epoch"  # the fencing token of the lease
REFUSE_HEADER: Final = "ditto_refuse"  # the code to end with, unless the operation's outcome is known
FREE_HEADER: Final = "ditto_free"  # when nothing had cancelled it, by this process's clock
CHANNEL_HEADERS: Final = (EPOCH_HEADER, REFUSE_HEADER, FREE_HEADER)
SENT_HEADER: Final = "ditto_sent"  # the sender's clock, epoch ms: for showing ages, never for leases
SCOPE_HEADER: Final = "ditto_scope"
GRAPH_HEADER: Final = "ditto_graph"  # the task is a node of a graph's run, which holds its input
TENANT_HEADER: Final = "ditto_tenant"  # whose call it is, where that is known
