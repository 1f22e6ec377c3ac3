"""Commands on a connection of the calling thread: what becomes of a connection that breaks."""

import threading
import time
from collections.abc import Iterator
from typing import cast

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.lines import RESTED_S, Lines
from ditto_tasks.state.redis import open_state_client

TTL_MS = 60_000


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def lines(server: EmbeddedServer) -> Iterator[Lines]:
    client = cast("redis.Redis", open_state_client(server.redis_url()))
    yield Lines(client)
    client.close()


@pytest.fixture
def admin(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.redis_url()) as client:
        client.flushall()
        client.set("count", 0, px=TTL_MS)
        yield client


def cut(lines: Lines, admin: redis.Redis) -> None:
    """Kill the connection of this thread, just after it was used."""
    (mine,) = lines.ask([("CLIENT", "ID")], again=False)
    admin.client_kill_filter(_id=str(mine))


def test_a_read_does_not_see_that_its_connection_broke(lines: Lines, admin: redis.Redis) -> None:
    """What may be asked again is asked again on a new connection."""
    admin.set("key", "value", px=TTL_MS)
    cut(lines, admin)
    assert lines.ask([("GET", "key")], again=True) == [b"value"]


def test_a_write_is_never_sent_twice(lines: Lines, admin: redis.Redis) -> None:
    """What may have been done already is an error, and the next command has a new connection."""
    cut(lines, admin)
    with pytest.raises(RedisConnectionError):
        lines.ask([("INCR", "count")], again=False)
    assert lines.ask([("INCR", "count")], again=False) == [1]


def test_a_connection_that_rested_is_looked_at_before_a_write(lines: Lines, admin: redis.Redis) -> None:
    """One that broke while nothing was asked costs nobody an error."""
    cut(lines, admin)
    threading.Event().wait(2 * RESTED_S)
    assert lines.ask([("INCR", "count")], again=False) == [1]


def test_each_thread_has_a_connection_and_keeps_it(lines: Lines) -> None:
    """Two threads have two, however often they ask."""
    seen: dict[str, set[int]] = {"one": set(), "two": set()}
    both = threading.Barrier(2, timeout=10)

    def ask(name: str) -> None:
        for _ in range(3):
            both.wait()
            seen[name].update(lines.ask([("CLIENT", "ID")], again=False))

    threads = [threading.Thread(target=ask, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [len(ids) for ids in seen.values()] == [1, 1]
    assert seen["one"].isdisjoint(seen["two"])


def test_the_servers_errors_are_answers(lines: Lines, admin: redis.Redis) -> None:
    """One refused command spoils no other of the same round trip."""
    admin.set("key", "value", px=TTL_MS)
    refused, answered = lines.ask([("LPUSH", "key", "x"), ("GET", "key")], again=False)
    assert isinstance(refused, redis.ResponseError)
    assert answered == b"value"


@pytest.mark.parametrize("again", [False, True])
def test_a_server_that_does_not_answer_is_waited_for_once(server: EmbeddedServer, again: bool) -> None:
    """The client's time limit holds for each answer, and a question that timed out is not asked again."""
    client = cast("redis.Redis", open_state_client(server.redis_url(), timeout_ms=1_000))
    lines = Lines(client)
    assert lines.ask([("PING",)], again=again) == [b"PONG"]
    since = time.monotonic()
    with pytest.raises(redis.RedisError):
        lines.ask([("BLPOP", "nothing", "0")], again=again)
    assert 0.9 < time.monotonic() - since < 1.9
    assert lines.ask([("PING",)], again=again) == [b"PONG"]
    client.close()
