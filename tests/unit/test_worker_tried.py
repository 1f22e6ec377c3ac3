"""A message that was in work before is told apart from one that was not: it may have been committed."""

from collections.abc import Callable, Iterator

import pytest
from redis import Redis
from support.shards import Deployment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.worker.scripts import ShardScripts, Taken


@pytest.fixture
def deployment(server: EmbeddedServer) -> Iterator[Deployment]:
    """A shard with two messages, of which none was in work."""
    with Redis.from_url(server.redis_url(0)) as client:
        running = Deployment(client)
        running.send(0, b"1", b"2")
        yield running


def take(worker: ShardScripts) -> Taken:
    taken = worker.next(0, epoch_of(worker), suspects=True)
    assert isinstance(taken, Taken)
    return taken


def epoch_of(worker: ShardScripts) -> int:
    return worker.claim([0])[0].epoch


def lapse(deployment: Deployment, _worker: ShardScripts, _taken: Taken) -> None:
    deployment.lapse(0)


def release(_deployment: Deployment, worker: ShardScripts, _taken: Taken) -> None:
    worker.release(0)


def fence(_deployment: Deployment, worker: ShardScripts, _taken: Taken) -> None:
    worker.renew_epoch(0, epoch_of(worker))


def give_back(_deployment: Deployment, worker: ShardScripts, taken: Taken) -> None:
    worker.next(0, epoch_of(worker), settle=(taken.seq, "back"), take=False)


@pytest.mark.parametrize("happens", [lapse, release, fence, give_back])
def test_a_message_that_comes_back_was_tried(
    deployment: Deployment, happens: Callable[[Deployment, ShardScripts, Taken], None]
) -> None:
    """Whichever way it left its task: the next owner has to ask whether its effect stands."""
    first = deployment.worker("a")
    taken = take(first)
    happens(deployment, first, taken)
    deployment.lapse(0)
    again = take(deployment.worker("b"))
    assert (taken.message, taken.tried) == (b"1", False)
    assert (again.message, again.tried) == (b"1", True)


@pytest.mark.parametrize("at_once", [True, False])
def test_its_successor_was_not_tried(deployment: Deployment, at_once: bool) -> None:
    """What is taken with the acknowledgement of a message, or after it, is new."""
    take(deployment.worker("a"))
    deployment.lapse(0)
    worker = deployment.worker("b")
    again = take(worker)
    following = worker.next(0, epoch_of(worker), settle=(again.seq, "ack"), take=at_once)
    if not at_once:
        following = take(worker)
    assert isinstance(following, Taken)
    assert (again.tried, following.message, following.tried) == (True, b"2", False)


def test_the_successor_of_a_dead_letter_was_not_tried(deployment: Deployment) -> None:
    """It does not inherit what is said of the buried one."""
    for owner in ("a", "b", "c"):
        take(deployment.worker(owner))
        deployment.lapse(0)
    worker = deployment.worker("d")
    dead = take(worker)
    assert worker.bury(0, epoch_of(worker), dead.seq, b"entry")
    following = take(worker)
    assert (dead.tried, following.message, following.tried) == (True, b"2", False)
