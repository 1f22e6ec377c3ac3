"""What tests of shards share: a deployment's keys, and scripts on behalf of several workers."""

from redis import Redis

from ditto_tasks.keys import Keys
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.keys import inflight_key
from ditto_tasks.worker.scripts import ShardScripts

KEYS = Keys("test")
LEASE_MS = 60_000  # never lapses within a test; tests that want it to lapse delete the lease


class Deployment:
    """A broker's database in which a test plays sender and workers."""

    def __init__(self, client: Redis) -> None:
        self.client = client

    def worker(self, owner: str, *, lease_ms: int = LEASE_MS) -> ShardScripts:
        """The scripts as a worker of that name calls them."""
        return ShardScripts(self.client, KEYS, owner=owner, lease_ms=lease_ms)

    def send(self, shard: int, *messages: bytes) -> None:
        """Put messages where kombu's Redis transport puts them."""
        for message in messages:
            self.client.lpush(shard_queue(shard), message)

    def waiting(self, shard: int) -> list[bytes]:
        """The messages of a queue, the next one first."""
        return self.client.lrange(shard_queue(shard), 0, -1)[::-1]

    def in_flight(self, shard: int) -> list[bytes]:
        """The messages in work."""
        return self.client.lrange(inflight_key(shard), 0, -1)

    def lapse(self, shard: int) -> None:
        """Let the shard's lease run out."""
        self.client.delete(KEYS.lease(shard))
