"""Commands on a connection of the calling thread: what becomes of a connection that breaks."""

import socket
import threading
from collections.abc import Iterator
from typing import cast

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from support.forks import in_a_fork
from support.proxies import Proxy, to_socket

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.lines import RESTED_S, Lines, ScriptCall
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


def own_id(lines: Lines) -> int:
    """The server's number of this thread's connection."""
    (mine,) = lines.ask([("CLIENT", "ID")], again=False)
    return int(mine)


def cut(lines: Lines, admin: redis.Redis) -> None:
    """Kill the connection of this thread, just after it was used."""
    admin.client_kill_filter(_id=str(own_id(lines)))


def test_a_read_does_not_see_that_its_connection_broke(lines: Lines, admin: redis.Redis) -> None:
    """What may be asked again is asked again on a new connection."""
    admin.set("key", "value", px=TTL_MS)
    cut(lines, admin)
    assert lines.ask([("GET", "key")], again=True) == [b"value"]


def test_a_script_does_not_see_that_its_connection_broke(lines: Lines, admin: redis.Redis) -> None:
    """Those that are run are idempotent; the first one after a break goes over a new connection."""
    script = ScriptCall.of("return ARGV[1]").bind([], ["1"])
    cut(lines, admin)
    assert lines.run(script) == [b"1"]


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
            seen[name].add(own_id(lines))

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
def test_a_server_that_does_not_answer_is_waited_for_once(
    server: EmbeddedServer, admin: redis.Redis, again: bool
) -> None:
    """The client's time limit holds for each answer, and a question that timed out is not asked again."""
    client = cast("redis.Redis", open_state_client(server.redis_url(), timeout_ms=1_000))
    lines = Lines(client)
    assert lines.ask([("PING",)], again=again) == [b"PONG"]
    admin.set("asked", 0, px=TTL_MS)
    with pytest.raises(redis.RedisError):
        lines.ask([("INCR", "asked"), ("BLPOP", "nothing", "0")], again=again)
    assert admin.get("asked") == b"1"
    assert lines.ask([("PING",)], again=again) == [b"PONG"]
    client.close()


class Fickle(Proxy):
    """Takes connections, and drops them at once while the server is away."""

    def __init__(self, server: EmbeddedServer) -> None:
        super().__init__(to_socket(server.socket_path))
        self.tried = 0
        self.is_away = False

    def accepted(self, client: socket.socket) -> socket.socket:
        self.tried += 1
        if self.is_away:
            raise ConnectionRefusedError
        return client


def test_a_server_that_stays_away_is_asked_once_more_and_then_once(server: EmbeddedServer) -> None:
    """A good connection that broke may be an old one; where a new one just failed, nothing is repeated."""
    with Fickle(server) as proxy:
        client = cast("redis.Redis", open_state_client(f"redis://127.0.0.1:{proxy.port}/0"))
        lines = Lines(client)
        assert lines.ask([("PING",)], again=True) == [b"PONG"]
        proxy.is_away = True
        proxy.cut_all()
        tried = [proxy.tried]
        for _ in range(3):
            with pytest.raises(redis.RedisError):
                lines.ask([("PING",)], again=True)
            tried.append(proxy.tried)
        assert tried == [1, 2, 3, 4]
        proxy.is_away = False
        assert lines.ask([("PING",)], again=False) == [b"PONG"]
        client.close()


def test_a_forked_child_has_a_connection_of_its_own(lines: Lines, admin: redis.Redis) -> None:
    """Two processes on one connection would read each other's answers."""
    mine = own_id(lines)
    code = in_a_fork(lambda: lines.ask([("SET", "child", own_id(lines), "PX", TTL_MS)], again=False))
    assert (code, own_id(lines)) == (0, mine)
    assert int(admin.get("child") or mine) != mine


def test_a_scripts_own_error_is_raised(lines: Lines, admin: redis.Redis) -> None:
    """Also the first time, when the server does not know the script yet; the connection stays good."""
    admin.script_flush()
    wrong, right = ScriptCall.of("return redis.error_reply('WRONG')"), ScriptCall.of("return ARGV[1]")
    mine = own_id(lines)
    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="WRONG"):
            lines.run(right.bind([], ["1"]), wrong.bind([], []))
    assert lines.run(right.bind([], ["1"]), right.bind([], ["2"])) == [b"1", b"2"]
    assert own_id(lines) == mine
