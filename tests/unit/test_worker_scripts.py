"""The Lua scripts that move leases and messages, on a real server."""

from collections.abc import Iterator

import pytest
from redis import Redis
from support.shards import KEYS, LEASE_MS, Deployment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.worker.scripts import InFlight, Nothing, ShardScripts, Taken


@pytest.fixture
def deployment(server: EmbeddedServer) -> Iterator[Deployment]:
    client = Redis.from_url(server.redis_url(0))
    yield Deployment(client)
    client.close()


def take(worker: ShardScripts, shard: int = 0) -> Taken:
    """Claim the shard and take its head."""
    taken = worker.next(shard, worker.claim([shard])[shard].epoch)
    assert isinstance(taken, Taken)
    return taken


def die_with_the_head(deployment: Deployment, *owners: str) -> None:
    """Each owner in turn takes the head and dies with it."""
    for owner in owners:
        take(deployment.worker(owner))
        deployment.lapse(0)


def test_a_claim_is_idempotent(deployment: Deployment) -> None:
    """A worker that lost the reply of its claim asks again and gets the same epoch."""
    first = deployment.worker("a").claim([0, 1])
    assert deployment.worker("a").claim([0, 1]) == first
    assert {claim.owner for claim in first.values()} == {"a"}


def test_a_held_shard_is_not_given_away(deployment: Deployment) -> None:
    """A claim of somebody else's shard says whose it is and changes nothing."""
    held = deployment.worker("a").claim([0])
    assert deployment.worker("b").claim([0]) == held


def test_a_claim_renews_the_lease(deployment: Deployment) -> None:
    """A claim of one's own shard puts the lease back to its full length."""
    deployment.worker("a", lease_ms=1_000).claim([0])
    deployment.worker("a", lease_ms=60_000).claim([0])
    assert deployment.client.pttl(KEYS.lease(0)) > 10_000


def test_epochs_grow_with_every_owner(deployment: Deployment) -> None:
    """Each takeover has a greater epoch than the one before."""
    epochs = []
    for owner in "abab":
        epochs.append(deployment.worker(owner).claim([0])[0].epoch)
        deployment.lapse(0)
    assert epochs == sorted(set(epochs))


def test_epochs_grow_over_a_flushed_broker(deployment: Deployment) -> None:
    """A broker that forgot everything still gives a greater epoch: it starts from the server's clock."""
    before = deployment.worker("a").claim([0])[0].epoch
    deployment.client.flushall()
    assert deployment.worker("a").claim([0])[0].epoch > before - 1_000
    seconds, _ = deployment.client.time()
    assert deployment.worker("a").claim([0])[0].epoch >= (seconds - 5) * 1000


def test_epochs_grow_though_the_clock_goes_back(deployment: Deployment) -> None:
    """An epoch ahead of the server's clock is followed by the next number."""
    deployment.client.hset(KEYS.shard(0), "epoch", 9_000_000_000_000)
    assert deployment.worker("a").claim([0])[0].epoch == 9_000_000_000_001


def test_messages_are_taken_in_the_order_in_which_kombu_put_them(deployment: Deployment) -> None:
    """Acknowledging gives the next message in the same call, oldest first, until there is none."""
    deployment.send(0, b"1", b"2", b"3")
    worker = deployment.worker("a")
    epoch = worker.claim([0])[0].epoch
    found, answer = [], worker.next(0, epoch)
    while isinstance(answer, Taken):
        found.append(answer.message)
        assert deployment.in_flight(0) == [answer.message]
        answer = worker.next(0, epoch, settle=(answer.seq, "ack"))
    assert (found, answer, deployment.in_flight(0)) == ([b"1", b"2", b"3"], Nothing.EMPTY, [])


def test_a_lost_reply_of_a_take_loses_no_message(deployment: Deployment) -> None:
    """Taking again without settling gives the same message under the same name."""
    deployment.send(0, b"1", b"2")
    worker = deployment.worker("a")
    assert take(worker) == take(worker)


def test_a_lost_reply_of_an_acknowledgement_settles_nothing_twice(deployment: Deployment) -> None:
    """Repeating an acknowledgement gives the message that the first one took, and drops none."""
    deployment.send(0, b"1", b"2", b"3")
    worker = deployment.worker("a")
    first, epoch = take(worker), worker.claim([0])[0].epoch
    second = worker.next(0, epoch, settle=(first.seq, "ack"))
    assert worker.next(0, epoch, settle=(first.seq, "ack")) == second
    assert (deployment.in_flight(0), deployment.waiting(0)) == ([b"2"], [b"3"])


def test_a_stale_owner_changes_nothing(deployment: Deployment) -> None:
    """After a takeover the old epoch can neither take, acknowledge, start nor bury."""
    deployment.send(0, b"1", b"2")
    stale, old = deployment.worker("a"), take(deployment.worker("a"))
    old_epoch = stale.claim([0])[0].epoch
    deployment.lapse(0)
    new = take(deployment.worker("b"))
    assert stale.next(0, old_epoch) is Nothing.FENCED
    assert stale.next(0, old_epoch, settle=(new.seq, "ack")) is Nothing.FENCED
    stale.start(InFlight(0, old_epoch, new.seq))
    for seq in (old.seq, new.seq):
        assert not stale.bury(0, old_epoch, seq, b"entry")
    assert (deployment.in_flight(0), deployment.waiting(0)) == ([b"1"], [b"2"])


def test_a_stale_owner_marks_nothing_as_started(deployment: Deployment) -> None:
    """A late start mark of the old owner does not count against the message under its new one."""
    deployment.send(0, b"1")
    stale = deployment.worker("a")
    take(stale)
    old_epoch = stale.claim([0])[0].epoch
    deployment.lapse(0)
    owner = deployment.worker("b")
    taken = owner.next(0, owner.claim([0])[0].epoch, starts=False)
    assert isinstance(taken, Taken)
    stale.start(InFlight(0, old_epoch, taken.seq))
    assert not deployment.client.hexists(KEYS.shard(0), "started")


def test_a_takeover_puts_the_message_in_flight_back_at_the_head(deployment: Deployment) -> None:
    """What a dead owner had taken is the next message again, before all others."""
    deployment.send(0, b"1", b"2", b"3")
    take(deployment.worker("a"))
    deployment.lapse(0)
    deployment.worker("b").claim([0])
    assert deployment.waiting(0) == [b"1", b"2", b"3"]


def test_a_returned_message_is_the_head_again(deployment: Deployment) -> None:
    """Settling with "back" leaves the order as it was."""
    deployment.send(0, b"1", b"2")
    worker = deployment.worker("a")
    first, epoch = take(worker), worker.claim([0])[0].epoch
    assert worker.next(0, epoch, settle=(first.seq, "back"), take=False) is Nothing.EMPTY
    assert deployment.waiting(0) == [b"1", b"2"]


def test_release_frees_the_shard_at_once(deployment: Deployment) -> None:
    """After a release the next claim succeeds, and a message that was in flight is the head."""
    deployment.send(0, b"1", b"2")
    take(deployment.worker("a"))
    deployment.worker("a").release(0)
    assert deployment.worker("b").claim([0])[0].owner == "b"
    assert deployment.waiting(0) == [b"1", b"2"]


def test_only_the_owner_releases(deployment: Deployment) -> None:
    """A release by somebody else changes nothing."""
    deployment.worker("a").claim([0])
    deployment.worker("b").release(0)
    assert deployment.worker("b").claim([0])[0].owner == "a"


def test_a_release_is_announced(deployment: Deployment) -> None:
    """Workers that wait for shards hear of a release, a newcomer and a leave at once."""
    worker = deployment.worker("a")
    with deployment.client.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(KEYS.changes)
        heard.get_message(timeout=5)  # the subscription itself
        worker.heartbeat(8)
        worker.heartbeat(8)
        worker.claim([0])
        worker.release(0)
        worker.leave()
        words = [heard.get_message(timeout=5) for _ in range(3)]
        assert [word and word["data"] for word in words] == [b"joined", b"released", b"left"]


def test_a_death_with_a_started_message_counts(deployment: Deployment) -> None:
    """Each owner that dies with a started message adds one to its deaths; an acknowledgement forgets them."""
    deployment.send(0, b"1", b"2")
    die_with_the_head(deployment, "a")
    worker = deployment.worker("b")
    again, epoch = take(worker), worker.claim([0])[0].epoch
    assert again.deaths == 1
    following = worker.next(0, epoch, settle=(again.seq, "ack"))
    assert isinstance(following, Taken)
    assert following.deaths == 0


def test_a_death_with_a_message_that_waits_for_a_thread_does_not_count(deployment: Deployment) -> None:
    """A message that was taken but never started is not to blame, unless it was marked started later."""
    deployment.send(0, b"1")
    worker = deployment.worker("a")
    worker.next(0, worker.claim([0])[0].epoch, starts=False)
    deployment.lapse(0)
    worker = deployment.worker("b")
    epoch = worker.claim([0])[0].epoch
    taken = worker.next(0, epoch, starts=False)
    assert isinstance(taken, Taken)
    assert taken.deaths == 0
    worker.start(InFlight(0, epoch, taken.seq))
    deployment.lapse(0)
    assert take(deployment.worker("c")).deaths == 1


def test_taking_ones_own_lapsed_lease_again_is_no_death(deployment: Deployment) -> None:
    """A worker that was only slow, and claims its shard again, does not count against its message."""
    deployment.send(0, b"1")
    die_with_the_head(deployment, "a", "a", "a")
    assert take(deployment.worker("a")).deaths == 0


def test_a_suspect_waits_for_its_turn(deployment: Deployment) -> None:
    """From its second death on, a message is taken only by a worker that runs no other suspect."""
    deployment.send(0, b"1")
    die_with_the_head(deployment, "a", "b")
    worker = deployment.worker("c")
    epoch = worker.claim([0])[0].epoch
    assert worker.next(0, epoch) is Nothing.SUSPECT
    assert deployment.waiting(0) == [b"1"]
    taken = worker.next(0, epoch, suspects=True)
    assert isinstance(taken, Taken)
    assert not taken.is_dead


def test_a_third_death_is_buried(deployment: Deployment) -> None:
    """After three deaths the message goes to the dead letters, and later ones go on untainted."""
    deployment.send(0, b"1", b"2")
    die_with_the_head(deployment, "a", "b")
    last = deployment.worker("c")
    last.next(0, last.claim([0])[0].epoch, suspects=True)
    deployment.lapse(0)
    worker = deployment.worker("d")
    epoch = worker.claim([0])[0].epoch
    dead = worker.next(0, epoch, suspects=True)
    assert isinstance(dead, Taken)
    assert dead.is_dead
    assert worker.bury(0, epoch, dead.seq, b"entry")
    assert not worker.bury(0, epoch, dead.seq, b"entry")
    assert deployment.client.lrange("ditto.ctx.0:dead", 0, -1) == [b"entry"]
    following = worker.next(0, epoch)
    assert isinstance(following, Taken)
    assert (following.message, following.deaths) == (b"2", 0)


def test_a_new_epoch_fences_the_old_task_and_keeps_the_shard(deployment: Deployment) -> None:
    """Renewing the epoch puts the message back at the head; the old epoch can do nothing any more."""
    deployment.send(0, b"1", b"2")
    worker = deployment.worker("a")
    old, epoch = take(worker), worker.claim([0])[0].epoch
    renewed = worker.renew_epoch(0, epoch)
    assert renewed is not None
    assert renewed > epoch
    assert deployment.waiting(0) == [b"1", b"2"]
    assert worker.next(0, epoch, settle=(old.seq, "ack")) is Nothing.FENCED
    assert worker.claim([0])[0].epoch == renewed
    assert worker.renew_epoch(0, epoch) is None


def test_a_new_epoch_is_greater_though_the_clock_goes_back(deployment: Deployment) -> None:
    """Fencing off an overdue task never repeats an epoch, wherever the server's clock is."""
    deployment.client.hset(KEYS.shard(0), "epoch", 9_000_000_000_000)
    worker = deployment.worker("a")
    epoch = worker.claim([0])[0].epoch
    assert worker.renew_epoch(0, epoch) == epoch + 1


def test_a_message_that_was_put_back_is_not_started(deployment: Deployment) -> None:
    """Whoever gives it up, or fences off what is overdue, and then dies has not died with the message."""
    deployment.send(0, b"1")
    first = deployment.worker("a")
    take(first)
    first.release(0)
    second = deployment.worker("b")
    assert take(second).deaths == 0
    second.renew_epoch(0, second.claim([0])[0].epoch)
    deployment.lapse(0)
    third = deployment.worker("c")
    again = take(third)
    assert again.deaths == 0
    third.next(0, third.claim([0])[0].epoch, settle=(again.seq, "back"), take=False)
    deployment.lapse(0)
    assert take(deployment.worker("d")).deaths == 0


def test_a_mark_that_comes_after_the_acknowledgement_is_no_mark(deployment: Deployment) -> None:
    """A start that is heard of late counts for no message, least of all for the next one."""
    deployment.send(0, b"1")
    worker = deployment.worker("a")
    taken = take(worker)
    epoch = worker.claim([0])[0].epoch
    worker.next(0, epoch, settle=(taken.seq, "ack"), take=False)
    worker.start(InFlight(0, epoch, taken.seq))
    deployment.lapse(0)
    deployment.send(0, b"2")
    assert take(deployment.worker("b")).deaths == 0


def test_a_mark_that_comes_late_is_none_of_the_next_message(deployment: Deployment) -> None:
    """Under the same owner, too, which has taken another message that waits for a thread."""
    deployment.send(0, b"1", b"2")
    worker = deployment.worker("a")
    first, epoch = take(worker), worker.claim([0])[0].epoch
    worker.next(0, epoch, settle=(first.seq, "ack"), starts=False)
    worker.start(InFlight(0, epoch, first.seq))
    deployment.lapse(0)
    assert take(deployment.worker("b")).deaths == 0


def test_a_message_that_is_to_be_buried_does_not_start(deployment: Deployment) -> None:
    """Whoever dies before it has buried it, did not die of it."""
    deployment.send(0, b"poison")
    die_with_the_head(deployment, "a", "b")
    for owner, deaths in (("c", 2), ("d", 3), ("e", 3)):
        worker = deployment.worker(owner)
        taken = worker.next(0, worker.claim([0])[0].epoch, suspects=True)
        assert isinstance(taken, Taken)
        assert taken.deaths == deaths
        deployment.lapse(0)


def test_only_the_message_in_flight_is_buried(deployment: Deployment) -> None:
    """A burial that comes late finds another message in flight, and leaves it there."""
    deployment.send(0, b"1", b"2")
    worker = deployment.worker("a")
    first = take(worker)
    epoch = worker.claim([0])[0].epoch
    worker.next(0, epoch, settle=(first.seq, "ack"))
    assert not worker.bury(0, epoch, first.seq, b"letter")
    assert deployment.in_flight(0) == [b"2"]


def test_heartbeats_list_the_living(deployment: Deployment) -> None:
    """A heartbeat tells who lives: not who left, and not who has been silent for a lease."""
    deployment.worker("a").heartbeat(8)
    deployment.worker("b").heartbeat(8)
    deployment.worker("c", lease_ms=1).heartbeat(8)
    deployment.worker("b").leave()
    deployment.client.zadd(KEYS.workers, {"c": 1})
    assert deployment.worker("a").heartbeat(8).workers == ("a",)


def test_the_first_heartbeat_fixes_the_number_of_shards(deployment: Deployment) -> None:
    """A worker with another number of shards reads the deployment's and does not change it."""
    assert deployment.worker("a").heartbeat(8).shard_count == 8
    assert deployment.worker("b").heartbeat(16).shard_count == 8


def test_owners_names_the_holders(deployment: Deployment) -> None:
    """The owners of all shards are read at once; free ones are missing."""
    deployment.worker("a").claim([0, 2])
    deployment.worker("b").claim([3])
    assert deployment.worker("c").owners(5) == {0: "a", 2: "a", 3: "b"}


def test_a_start_tells_whether_anything_stands_against_it(deployment: Deployment) -> None:
    """The call that marks a start says so where none of the marks exists, alone or with another settling."""
    worker, told = deployment.worker("a"), list[str]()
    epochs = {shard: claim.epoch for shard, claim in worker.claim([0, 1]).items()}
    deployment.send(0, b"first")
    deployment.send(1, b"second")
    first, second = (worker.next(shard, epochs[shard], starts=False) for shard in (0, 1))
    assert isinstance(first, Taken)
    assert isinstance(second, Taken)
    seq = second.seq
    deployment.client.set("cancelled", "1", px=LEASE_MS)

    def waits(*marks: str) -> InFlight:
        return InFlight(1, epochs[1], seq, marks, lambda: told.append(" ".join(marks)))

    worker.start(waits("other", "cancelled"))
    worker.start(waits("other", "another"))
    for marks in (("cancelled",), ("other",)):
        settle = (first.seq, "ack")
        worker.next(0, epochs[0], settle=settle, take=False, also_started=waits(*marks))
    assert told == ["other another", "other"]
    worker.start(InFlight(1, epochs[1] - 1, seq, ("other",), lambda: told.append("stale")))
    assert "stale" not in told
