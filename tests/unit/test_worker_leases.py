"""The lease protocol of several workers, one round at a time, on a real server."""

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import redis
from redis import Redis
from support.polling import eventually
from support.shards import KEYS, LEASE_MS, Deployment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import SettingsError
from ditto_tasks.keys import Keys
from ditto_tasks.worker.leases import Changes, LeaseLoop
from ditto_tasks.worker.scripts import ShardScripts

COUNT = 8


@pytest.fixture
def deployment(server: EmbeddedServer) -> Iterator[Deployment]:
    client = Redis.from_url(server.redis_url(0))
    yield Deployment(client)
    client.close()


class Holder:
    """Serves shards that never have anything in work."""

    def __init__(self, deployment: Deployment, owner: str, scripts: ShardScripts | None = None) -> None:
        self.shards: dict[int, int] = {}
        self.lost: list[int] = []
        self.busy: set[int] = set()
        self.scripts = scripts or deployment.worker(owner)
        self.loop = LeaseLoop(self.scripts, self, owner=owner, shard_count=COUNT)

    def held(self) -> Mapping[int, int]:
        return dict(self.shards)

    def gain(self, shard: int, epoch: int) -> None:
        self.shards[shard] = epoch

    def lose(self, shard: int) -> None:
        self.lost.append(shard)
        del self.shards[shard]

    def drain(self, shard: int) -> None:
        if shard not in self.busy:
            self.scripts.release(shard)
            del self.shards[shard]


def rounds(*holders: Holder, times: int = 3) -> None:
    """A few rounds of all, which is what it takes to settle."""
    for _ in range(times):
        for holder in holders:
            holder.loop.round()


def test_the_only_worker_takes_all_shards(deployment: Deployment) -> None:
    """One worker holds every shard after one round, and keeps each epoch in the next."""
    holder = Holder(deployment, "a")
    rounds(holder, times=1)
    first = holder.held()
    rounds(holder)
    assert sorted(first) == list(range(COUNT))
    assert holder.held() == first


def test_a_newcomer_gets_half(deployment: Deployment) -> None:
    """Two workers end with half of the shards each, and none of them twice."""
    first, second = Holder(deployment, "a"), Holder(deployment, "b")
    rounds(first)
    rounds(first, second)
    assert (len(first.shards), len(second.shards)) == (4, 4)
    assert not first.shards.keys() & second.shards.keys()
    assert first.lost == []


def test_a_busy_shard_moves_only_when_it_is_idle(deployment: Deployment) -> None:
    """A shard that still works stays where it is, renewed, until it has been drained."""
    first, second = Holder(deployment, "a"), Holder(deployment, "b")
    rounds(first)
    first.busy = set(range(COUNT))
    rounds(first, second)
    assert (len(first.shards), len(second.shards)) == (COUNT, 0)
    first.busy.clear()
    rounds(first, second)
    assert (len(first.shards), len(second.shards)) == (4, 4)


def test_a_lapsed_lease_is_taken_over(deployment: Deployment) -> None:
    """A worker that was silent for too long finds that its shards are another's, with greater epochs."""
    silent, other = Holder(deployment, "a"), Holder(deployment, "b")
    rounds(silent)
    before = silent.held()
    deployment.client.delete(KEYS.workers, *(KEYS.lease(shard) for shard in range(COUNT)))
    rounds(other, times=1)
    assert all(other.shards[shard] > before[shard] for shard in before)
    rounds(silent, times=1)
    assert sorted(silent.lost) == list(range(COUNT))


def test_an_own_lapsed_lease_is_taken_again_under_a_new_epoch(deployment: Deployment) -> None:
    """A worker whose leases lapsed while nobody else was there holds them again, fenced from its past."""
    holder = Holder(deployment, "a")
    rounds(holder)
    before = holder.held()
    deployment.client.delete(*(KEYS.lease(shard) for shard in range(COUNT)))
    rounds(holder, times=1)
    assert all(holder.shards[shard] > before[shard] for shard in before)


def test_a_worker_that_leaves_takes_nothing_and_keeps_what_is_busy(deployment: Deployment) -> None:
    """After `leave` the others get all that is idle; what is in work stays renewed until it has ended."""
    leaving, other = Holder(deployment, "a"), Holder(deployment, "b")
    rounds(leaving)
    leaving.busy = {3}
    leaving.loop.leave()
    rounds(leaving, other)
    assert (leaving.shards.keys(), len(other.shards)) == ({3}, COUNT - 1)
    leaving.busy.clear()
    rounds(leaving, other)
    assert (len(leaving.shards), len(other.shards)) == (0, COUNT)


def test_another_number_of_shards_is_an_error(deployment: Deployment) -> None:
    """A worker whose settings disagree with the deployment's number of shards takes none."""
    deployment.worker("a").heartbeat(COUNT * 2)
    holder = Holder(deployment, "b")
    with pytest.raises(SettingsError, match="SHARD_COUNT_MISMATCH"):
        holder.loop.round()
    assert holder.shards == {}


def test_the_shards_of_another_deployment_are_an_error(deployment: Deployment) -> None:
    """The queues of all deployments have the same names: who comes second to a database takes no shard."""
    deployment.worker("a").heartbeat(COUNT)
    scripts = ShardScripts(deployment.client, Keys("other"), owner="b", lease_ms=LEASE_MS)
    holder = Holder(deployment, "b", scripts)
    with pytest.raises(SettingsError, match="DEPLOYMENT_MISMATCH") as caught:
        holder.loop.round()
    assert caught.value.details == {"configured": "other", "stored": KEYS.deployment}
    assert holder.shards == {}


def test_a_shard_that_another_took_meanwhile_was_never_lost(deployment: Deployment) -> None:
    """Who wanted a shard, and finds it taken when it claims it, goes on without it."""
    first = Holder(deployment, "a", Unsuspecting(deployment.client, KEYS, owner="a", lease_ms=LEASE_MS))
    deployment.worker("b").claim([3])
    rounds(first)
    assert (first.lost, sorted(first.shards)) == ([], [0, 1, 2, 4, 5, 6, 7])


class Unsuspecting(ShardScripts):
    """Reads who holds what just before somebody takes a shard."""

    def owners(self, shard_count: int) -> Mapping[int, str]:
        return {shard: who for shard, who in super().owners(shard_count).items() if who == "a"}


def test_a_change_ends_the_wait(deployment: Deployment) -> None:
    """Who waits for changes returns when another worker joins, long before its time is up."""
    changes = Changes(deployment.client, KEYS.changes)
    waiting = threading.Thread(target=changes.wait, args=(60.0,))
    changes.wait(0.01)  # subscribed from here on
    waiting.start()
    deployment.worker("b").heartbeat(COUNT)
    eventually(lambda: not waiting.is_alive(), 5)


def test_changes_are_heard_of_once_the_broker_is_back(tmp_path: Path) -> None:
    """Each wait fails while it is away; the first one after that subscribes."""
    with EmbeddedServer(tmp_path) as server, Redis.from_url(server.redis_url(0)) as client:
        changes = Changes(client, KEYS.changes)
        server.kill()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                changes.wait(0.0)
        server.start()
        changes.wait(0.0)
        assert client.pubsub_numsub(KEYS.changes) == [(KEYS.changes.encode(), 1)]
