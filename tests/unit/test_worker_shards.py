"""What a worker does with its shards: who may take when, and what outlives what. On a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from redis import Redis
from support.shards import KEYS, LEASE_MS, Deployment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.sharding import shard_queue
from ditto_tasks.state.redis import open_state_client
from ditto_tasks.worker.scripts import Nothing, ShardScripts, Taken
from ditto_tasks.worker.shards import TIMEOUT_CODE, Delivery, Shards

COUNT = 4


class Outlet:
    """A consumer that runs nothing by itself: the test ends each task when it wants to."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.delivered: list[Delivery] = []
        self.buried: list[Delivery] = []
        self.watched: set[int] = set()
        self.free = True
        self.fail: Exception | None = None
        self.at_once = False
        self.waiting: list[Delivery] = []

    def has_free_thread(self) -> bool:
        return self.free

    def next_to_start(self) -> Delivery | None:
        return self.waiting.pop(0) if self.waiting else None

    def deliver(self, delivery: Delivery) -> None:
        if self.fail is not None:
            raise self.fail
        self.delivered.append(delivery)
        if self.at_once:
            self._shards.settle(delivery, "ack")

    def bury(self, delivery: Delivery) -> None:
        self.buried.append(delivery)
        self._shards.settle(delivery, "ack")

    def watch(self, shard: int) -> None:
        self.watched.add(shard)

    def unwatch(self, shard: int) -> None:
        self.watched.discard(shard)

    def wake(self) -> None:
        """What peeks do: tell of every watched shard once."""
        watched, self.watched = self.watched, set()
        for shard in watched:
            self._shards.advance(shard)

    @property
    def messages(self) -> list[bytes]:
        return [delivery.taken.message for delivery in self.delivered]


class Worker:
    """Shards with their leases, as the lease loop and the consumer would set them up."""

    def __init__(self, deployment: Deployment, owner: str = "a", timeout_s: float = 60.0) -> None:
        self.scripts: ShardScripts = deployment.worker(owner)
        self.shards = Shards(self.scripts, count=COUNT, mutation_timeout_s=timeout_s)
        self.outlet = Outlet(self.shards)
        self.shards.attach(self.outlet)

    def claim(self, *numbers: int) -> None:
        for number, claim in self.scripts.claim(numbers).items():
            self.shards.gain(number, claim.epoch)

    def end(self, place: int = -1) -> None:
        self.shards.settle(self.outlet.delivered[place], "ack")


@pytest.fixture
def deployment(server: EmbeddedServer) -> Iterator[Deployment]:
    client = Redis.from_url(server.redis_url(0))
    yield Deployment(client)
    client.close()


@pytest.fixture
def worker(deployment: Deployment) -> Worker:
    return Worker(deployment)


def test_one_message_of_a_shard_is_in_work(deployment: Deployment, worker: Worker) -> None:
    """The next message is delivered when the one before has ended, without another wake-up."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.advance(0)
    worker.shards.nudge()
    assert worker.outlet.messages == [b"1"]
    worker.end()
    assert worker.outlet.messages == [b"1", b"2"]


def test_shards_do_not_wait_for_each_other(deployment: Deployment, worker: Worker) -> None:
    """Each shard has its own message in work."""
    worker.claim(0, 1, 2)
    for shard in (0, 1, 2):
        deployment.send(shard, b"%d" % shard)
    worker.outlet.wake()
    assert sorted(worker.outlet.messages) == [b"0", b"1", b"2"]


def test_a_busy_shard_takes_nothing_after_a_reconnect(deployment: Deployment, worker: Worker) -> None:
    """Detached or attached again, a shard whose task still runs delivers nothing until it has ended."""
    worker.claim(0, 1)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.detach()
    again = Outlet(worker.shards)
    worker.shards.attach(again)
    again.wake()
    assert again.delivered == []
    worker.end()
    assert again.messages == [b"2"]


def test_while_detached_a_task_is_settled_and_nothing_taken(deployment: Deployment, worker: Worker) -> None:
    """A task that ends during a reconnect is acknowledged; its successor waits for the consumer."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.detach()
    worker.end()
    assert (deployment.in_flight(0), deployment.waiting(0)) == ([], [b"2"])


def test_a_busy_flag_outlives_the_lease(deployment: Deployment, worker: Worker) -> None:
    """A shard that was lost and won back while its old task runs takes nothing until that has ended."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.lose(0)
    deployment.lapse(0)
    worker.claim(0)
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1"]
    worker.end()
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1", b"1"], "the message came again: the old epoch could not settle it"
    assert worker.outlet.delivered[1].taken.tried


def test_an_acknowledgement_that_failed_is_made_up_for(deployment: Deployment, worker: Worker) -> None:
    """If the server can't be told that a task has ended, it is told at the next occasion, and once."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    with unreachable(worker):
        worker.end()
    assert worker.outlet.messages == [b"1"]
    worker.shards.nudge()
    worker.shards.nudge()
    assert worker.outlet.messages == [b"1", b"2"]


def test_a_task_that_has_ended_is_not_overdue(deployment: Deployment) -> None:
    """A task whose end the server has not heard of yet is not fenced off; it is settled."""
    worker = Worker(deployment, timeout_s=0.0)
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    with unreachable(worker):
        worker.end()
    epochs = worker.shards.held()
    worker.shards.end_overdue()
    assert worker.shards.held() == epochs
    worker.shards.nudge()
    assert worker.outlet.messages == [b"1", b"2"]


@contextmanager
def unreachable(worker: Worker) -> Iterator[None]:
    """Meanwhile the worker's scripts reach no server."""
    broken = cast("Redis", open_state_client("unix:///nowhere"))
    scripts = worker.shards._scripts
    worker.shards._scripts = ShardScripts(broken, KEYS, owner="a", lease_ms=1)
    yield
    worker.shards._scripts = scripts


def test_a_message_that_cannot_be_delivered_goes_back(deployment: Deployment, worker: Worker) -> None:
    """An error on the way to the pool leaves the message at the head, and it is tried again later."""
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.fail = RuntimeError("no pool")
    worker.outlet.wake()
    worker.shards.nudge()
    assert deployment.waiting(0) == [b"1"]
    worker.outlet.fail = None
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1"]


def test_a_task_that_ends_at_once_does_not_recurse(deployment: Deployment, worker: Worker) -> None:
    """With a pool that runs tasks in place, a long queue is worked off without growing the stack."""
    worker.claim(0)
    worker.outlet.at_once = True
    deployment.send(0, *[b"%d" % number for number in range(500)])
    while deployment.waiting(0):
        worker.outlet.wake()
    assert len(worker.outlet.delivered) == 500


def test_a_drained_shard_is_released_when_its_task_ends(deployment: Deployment, worker: Worker) -> None:
    """Draining lets the task in work end, takes no other, and then frees the shard."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.drain(0)
    assert deployment.worker("b").claim([0])[0].owner == "a"
    worker.end()
    assert deployment.worker("b").claim([0])[0].owner == "b"
    assert deployment.waiting(0) == [b"2"]


def test_a_shard_that_is_gained_anew_is_drained_no_more(deployment: Deployment, worker: Worker) -> None:
    """Whoever gets a shard that it was about to give up serves it."""
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.wake()
    worker.shards.drain(0)
    deployment.lapse(0)
    worker.claim(0)
    worker.end()
    assert list(worker.shards.held()) == [0]


def test_draining_does_not_wait_for_a_task_that_has_no_thread(deployment: Deployment, worker: Worker) -> None:
    """A message that only waits for a thread goes back at once, so that the shard can move."""
    worker.claim(0)
    worker.outlet.free = False
    deployment.send(0, b"1")
    worker.outlet.wake()
    worker.shards.drain(0)
    assert deployment.waiting(0) == [b"1"]
    assert worker.shards.held() == {}


def test_a_task_that_found_its_thread_counts_as_started(deployment: Deployment, worker: Worker) -> None:
    """The mark that makes an owner's death count is set when a thread picks the message up."""
    worker.claim(0)
    worker.outlet.free = False
    deployment.send(0, b"1")
    worker.outlet.wake()
    assert not deployment.client.hexists(KEYS.shard(0), "started")
    worker.shards.mark_started(worker.outlet.delivered[0])
    assert deployment.client.hexists(KEYS.shard(0), "started")


def one_that_waits(deployment: Deployment, worker: Worker) -> Delivery:
    """The delivery of shard 1, which found the pool full while the one of shard 0 runs."""
    worker.claim(0, 1)
    deployment.send(0, b"runs")
    worker.outlet.wake()
    worker.outlet.free = False
    deployment.send(1, b"waits")
    worker.outlet.watch(1)
    worker.outlet.wake()
    return worker.outlet.delivered[1]


def test_a_thread_that_ends_a_task_marks_the_one_it_picks_up(deployment: Deployment, worker: Worker) -> None:
    """In a full pool the next message is marked as started by the call that settles the one before."""
    worker.outlet.waiting = [one_that_waits(deployment, worker)]
    assert not deployment.client.hexists(KEYS.shard(1), "started")
    worker.end(0)
    assert deployment.client.hexists(KEYS.shard(1), "started")
    assert worker.outlet.delivered[1].started_s is not None


@pytest.mark.parametrize("by_settling", [True, False])
def test_a_start_that_could_not_be_noted_is_noted_later(
    deployment: Deployment, worker: Worker, by_settling: bool
) -> None:
    """Whoever was to tell the server: a death counts as soon as the server can be told."""
    waiting = one_that_waits(deployment, worker)
    with unreachable(worker):
        if by_settling:
            worker.outlet.waiting = [waiting]
            worker.end(0)
        else:
            worker.shards.mark_started(waiting)
    assert not deployment.client.hexists(KEYS.shard(1), "started")
    worker.shards.nudge()
    assert deployment.client.hexists(KEYS.shard(1), "started")


def test_a_start_that_was_noted_is_noted_once(deployment: Deployment, worker: Worker) -> None:
    """The nudges of a worker whose server answers cost its running tasks no call."""
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.wake()
    deployment.client.hdel(KEYS.shard(0), "started")
    worker.shards.nudge()
    assert not deployment.client.hexists(KEYS.shard(0), "started")


class Detaching(Shards):
    """Its consumer goes after so many looks at the outlet, at any moment of another thread."""

    looks: float = float("inf")
    attached: Outlet | None = None

    @property
    def _outlet(self) -> Outlet | None:
        self.looks -= 1
        return self.attached if self.looks >= 0 else None

    @_outlet.setter
    def _outlet(self, outlet: Outlet | None) -> None:
        self.attached = outlet


@pytest.mark.parametrize("looks", range(6))
def test_a_consumer_may_go_at_any_moment(deployment: Deployment, worker: Worker, looks: int) -> None:
    """Its going keeps no task's end from the server, and no shard from being lost."""
    shards = worker.shards = Detaching(worker.scripts, count=COUNT, mutation_timeout_s=60.0)
    worker.outlet = Outlet(shards)
    shards.attach(worker.outlet)
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.wake()
    shards.looks = looks
    worker.end()
    assert deployment.in_flight(0) == []
    shards.looks = looks
    shards.lose(0)
    assert shards.held() == {}


def test_a_drain_releases_each_shard_when_its_task_has_ended(deployment: Deployment, worker: Worker) -> None:
    """It waits for no task; the last one that ends leaves no shard behind, though nothing is attached."""
    worker.claim(0, 1)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.drain_all()
    worker.shards.detach()
    assert list(worker.shards.held()) == [0]
    worker.end()
    assert worker.shards.held() == {}
    assert deployment.worker("b").owners(COUNT) == {}
    assert deployment.waiting(0) == [b"2"]


def test_a_server_that_is_away_is_told_of_one_shard(
    deployment: Deployment, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """A stop waits once for its reply, not for each shard; all of them are given up all the same."""
    worker.claim(*range(COUNT))
    with unreachable(worker):
        worker.shards.drain_all()
        worker.shards.release_all()
    assert worker.shards.held() == {}
    failed = [record for record in caplog.records if "A shard operation failed" in record.message]
    assert len(failed) == 1
    assert len(deployment.worker("b").owners(COUNT)) == COUNT


def test_at_a_stop_a_server_that_is_away_hears_of_one_end(
    deployment: Deployment, worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    """Of several tasks that ended meanwhile: each would take as long as a reply may."""
    worker.claim(0, 1, 2)
    for shard in (0, 1, 2):
        deployment.send(shard, b"%d" % shard)
    worker.outlet.wake()
    with unreachable(worker):
        for place in (0, 1, 2):
            worker.end(place)
        caplog.clear()
        worker.shards.nudge(give_up=True)
    assert len([record for record in caplog.records if "A shard operation failed" in record.message]) == 1
    worker.shards.nudge(give_up=True)
    assert [deployment.in_flight(shard) for shard in (0, 1, 2)] == [[], [], []]


def test_a_release_of_all_waits_for_no_task(deployment: Deployment, worker: Worker) -> None:
    """Also what still runs is released; the message is the head again."""
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.wake()
    worker.shards.drain_all()
    worker.shards.release_all()
    assert (worker.shards.held(), deployment.waiting(0)) == ({}, [b"1"])


def test_while_paused_nothing_is_taken(deployment: Deployment, worker: Worker) -> None:
    """A pause ends with what is in work; `resume` goes on where it stopped."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.pause()
    worker.end()
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1"]
    worker.shards.resume()
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1", b"2"]


def test_a_returned_message_is_delivered_again_as_tried(deployment: Deployment, worker: Worker) -> None:
    """A message that its task gave back comes again before its successors, marked as tried before."""
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    worker.shards.settle(worker.outlet.delivered[0], "back")
    worker.outlet.wake()
    assert worker.outlet.messages == [b"1", b"1"]
    assert [delivery.taken.tried for delivery in worker.outlet.delivered] == [False, True]


def test_a_refused_head_is_taken_even_while_paused(deployment: Deployment, worker: Worker) -> None:
    """The head that is past its deadline is delivered with the code that it has to end with."""
    worker.claim(0)
    worker.shards.pause()
    deployment.send(0, b"1", b"2")
    worker.shards.refuse_head(0, b"1", "CODE")
    assert [delivery.refuse for delivery in worker.outlet.delivered] == ["CODE"]
    worker.end()
    assert worker.outlet.messages == [b"1"]


def test_only_the_named_message_is_refused(deployment: Deployment, worker: Worker) -> None:
    """If another message is at the head by now, it is delivered as usual."""
    worker.claim(0)
    deployment.send(0, b"2")
    worker.shards.refuse_head(0, b"1", "CODE")
    assert [(d.taken.message, d.refuse) for d in worker.outlet.delivered] == [(b"2", None)]


def test_an_overdue_mutation_is_fenced_and_refused(deployment: Deployment) -> None:
    """Its message comes again under a new epoch, to be refused; its own end settles nothing."""
    worker = Worker(deployment, timeout_s=0.0)
    worker.claim(0)
    deployment.send(0, b"1", b"2")
    worker.outlet.wake()
    (overdue,) = worker.outlet.delivered
    worker.shards.end_overdue()
    worker.outlet.wake()
    _, refused = worker.outlet.delivered
    assert refused.epoch > overdue.epoch
    assert (refused.taken.message, refused.refuse) == (b"1", TIMEOUT_CODE)
    worker.shards.settle(overdue, "ack")
    assert deployment.in_flight(0) == [b"1"]
    worker.end()
    assert worker.outlet.messages == [b"1", b"1", b"2"]


def killed(deployment: Deployment, shard: int, times: int) -> None:
    """Let a shard's head take some owners with it."""
    for number in range(times):
        victim = deployment.worker(f"victim{number}")
        epoch = victim.claim([shard])[shard].epoch
        victim.next(shard, epoch, suspects=True)
        deployment.lapse(shard)


def test_a_worker_runs_one_suspect_at_a_time(deployment: Deployment, worker: Worker) -> None:
    """Of two messages that died twice the second waits for the first; others run beside it."""
    for shard in (0, 1):
        deployment.send(shard, b"suspect")
        killed(deployment, shard, 2)
    deployment.send(2, b"harmless")
    worker.claim(0, 1, 2)
    worker.outlet.wake()
    assert sorted(worker.outlet.messages) == [b"harmless", b"suspect"]
    suspect = next(d for d in worker.outlet.delivered if d.taken.message == b"suspect")
    worker.shards.settle(suspect, "ack")
    worker.shards.nudge()
    worker.outlet.wake()
    assert sorted(worker.outlet.messages) == [b"harmless", b"suspect", b"suspect"]


def test_a_suspect_that_is_gone_leaves_its_place(deployment: Deployment, worker: Worker) -> None:
    """If a suspect can't be taken after all, the next one does not wait for it."""
    for shard in (0, 1):
        deployment.send(shard, b"suspect")
        killed(deployment, shard, 2)
    worker.shards._scripts = Purging(deployment.client, KEYS, owner="a", lease_ms=LEASE_MS)
    worker.claim(0)
    worker.outlet.wake()
    assert worker.outlet.messages == []
    worker.shards._scripts = worker.scripts
    worker.claim(1)
    worker.outlet.wake()
    assert worker.outlet.messages == [b"suspect"]


class Purging(ShardScripts):
    """Somebody purges the shard between the two calls that a suspect takes."""

    def next(self, shard: int, epoch: int, **how: Any) -> Taken | Nothing:
        if how.get("suspects"):
            self._client.delete(shard_queue(shard))
        return super().next(shard, epoch, **how)


def test_after_three_deaths_a_message_is_buried(deployment: Deployment, worker: Worker) -> None:
    """It is not run a fourth time, and its successor goes on."""
    deployment.send(0, b"poison", b"next")
    killed(deployment, 0, 3)
    worker.claim(0)
    worker.outlet.wake()
    assert [delivery.taken.message for delivery in worker.outlet.buried] == [b"poison"]
    worker.outlet.wake()
    assert worker.outlet.messages == [b"next"]


def test_a_stale_owner_gives_its_shard_up_when_it_is_fenced(deployment: Deployment, worker: Worker) -> None:
    """An owner that hears from the script that another took over holds the shard no more."""
    worker.claim(0)
    deployment.send(0, b"1")
    worker.outlet.wake()
    deployment.lapse(0)
    deployment.worker("b").claim([0])
    worker.end()
    assert worker.shards.held() == {}
    assert deployment.waiting(0) == [b"1"]
