"""Changing the number of shards of a deployment, which moves scopes to other queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ditto_tasks.errors import SettingsError
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.redis_replies import text
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.keys import inflight_key

if TYPE_CHECKING:
    from redis import Redis


def resize_shards(client: Redis, keys: Keys, before: int, count: int) -> None:
    """Set the number of shards; SettingsError SHARDS_NOT_EMPTY while a message waits or runs in any."""
    queues = [key for shard in range(before) for key in (shard_queue(shard), inflight_key(shard))]
    answer = text(run_script(client, "ditto_tasks.worker", "resize", [keys.shard_count, *queues], count))
    if answer != "done":
        raise SettingsError("SHARDS_NOT_EMPTY", f"{answer} holds messages: drain first")
