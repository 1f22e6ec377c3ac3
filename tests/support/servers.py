"""State servers of every kind, all from the embedded server's binary and on loopback or a unix socket."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis

from ditto_tasks.embedded import EmbeddedServer, find_server_binary
from ditto_tasks.errors import EmbeddedServerError
from ditto_tasks.state.redis import StateClient, open_state_client
from support.polling import eventually
from support.proxies import TlsProxy, to_socket

PASSWORD: Final = "for-tests-only"  # of servers that live for seconds on loopback
# What the user of a worker needs for the state, and no more; docs/operations.md shows the same line.
STATE_ACL: Final = (
    "~ditto:context:* +get +getrange +set +exists +pttl +pexpire +hget +hmget +hgetall +hset +hdel +zadd "
    "+zremrangebyscore +zscan +scan +time +eval +evalsha +ping +select +hello +client|setinfo"
)
# A sentinel takes no server for dead that a busy machine keeps from answering: a test says when one is.
NEVER_MS: Final = 3_600_000
PATIENT_MS: Final = "60000"  # the same of a cluster's nodes
TRIES: Final = 3  # a port that was free may have been taken before its server binds it
CLUSTER_NODES: Final = 3  # with fewer masters a cluster cannot vote
SLOTS: Final = 16_384


@dataclass(frozen=True)
class StateServer:
    """A running server; `admin_url` may do everything, whatever the user of `url` may."""

    kind: str
    url: str
    admin_url: str
    nodes: tuple[EmbeddedServer, ...]
    watcher_url: str = ""  # of the sentinel

    def fail_over(self) -> None:
        """Have the sentinel make the replica the master, whether or not the master is there."""
        watcher = open_state_client(self.watcher_url)
        eventually(lambda: _fails_over(watcher), 30, message="the sentinel does not fail over")
        watcher.close()

    def open_admin(self) -> StateClient:
        """A client of the test's own."""
        return open_state_client(self.admin_url)


@contextmanager
def state_server(kind: str, folder: Path) -> Iterator[StateServer]:
    """A running state server of a kind."""
    with ExitStack() as stack:
        yield _started(stack, kind, folder)


def _started(stack: ExitStack, kind: str, folder: Path) -> StateServer:
    for left in reversed(range(TRIES)):
        with ExitStack() as attempt:
            try:
                server = _STARTERS[kind](attempt, folder)
            except EmbeddedServerError:
                if not left:
                    raise
            else:
                stack.push(attempt.pop_all())
                return server
    raise AssertionError("unreachable")


def _start_unix(stack: ExitStack, _folder: Path) -> StateServer:
    server = stack.enter_context(EmbeddedServer())
    return StateServer("unix", server.redis_url(2), server.redis_url(2), (server,))


def _start_tls_acl(stack: ExitStack, folder: Path) -> StateServer:
    users = {
        "default": "off",
        "worker": f"on >{PASSWORD} {STATE_ACL}",
        "admin": f"on >{PASSWORD} ~* &* +@all",
    }
    options = [word for name, rules in users.items() for word in ("--user", name, *rules.split())]
    server = stack.enter_context(EmbeddedServer(extra_args=options))
    certificate, key = make_certificate(folder)
    proxy = stack.enter_context(TlsProxy(to_socket(server.socket_path), certificate=certificate, key=key))
    place = f"{PASSWORD}@127.0.0.1:{proxy.port}/2?ssl_ca_certs={certificate}"
    return StateServer("tls-acl", f"rediss://worker:{place}", f"rediss://admin:{place}", (server,))


def _start_sentinel(stack: ExitStack, folder: Path) -> StateServer:
    ports = [free_port() for _ in range(3)]
    at_once = ["--repl-diskless-sync-delay", "0"]
    main = stack.enter_context(EmbeddedServer(extra_args=["--port", str(ports[0]), *at_once]))
    replica_of = ["--replicaof", "127.0.0.1", str(ports[0])]
    replica = stack.enter_context(EmbeddedServer(extra_args=["--port", str(ports[1]), *replica_of]))
    eventually(lambda: _replicates(replica), 30, message="the replica does not follow")
    # it asks for replicas at once, then rarely
    watcher = _start_watcher(stack, folder, port=ports[2], watched=ports[0])
    url = f"redis+sentinel://127.0.0.1:{ports[2]}/state/2"
    eventually(
        lambda: _watcher_sees_replica(ports[2], watcher), 30, message="the sentinel does not see the replica"
    )
    return StateServer("sentinel", url, url, (main, replica), watcher_url=f"redis://127.0.0.1:{ports[2]}")


def _start_watcher(stack: ExitStack, folder: Path, *, port: int, watched: int) -> subprocess.Popen[bytes]:
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor state 127.0.0.1 {watched} 1\n"
        f"sentinel down-after-milliseconds state {NEVER_MS}\nsentinel failover-timeout state 5000\n"
    )
    watcher = subprocess.Popen(
        [find_server_binary(), config, "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    stack.callback(watcher.wait, 30)
    stack.callback(watcher.terminate)
    return watcher


def _replicates(server: EmbeddedServer) -> bool:
    client = open_state_client(server.redis_url())
    try:
        return client.info("replication").get("master_link_status") == "up"
    finally:
        client.close()


def _watcher_sees_replica(port: int, watcher: subprocess.Popen[bytes]) -> bool:
    if watcher.poll() is not None:
        raise EmbeddedServerError("SERVER_NOT_STARTED", "the sentinel has ended")
    client = open_state_client(f"redis://127.0.0.1:{port}")
    try:
        replicas = client.sentinel_slaves("state")
    except (redis.ConnectionError, redis.TimeoutError):  # it does not listen yet, or somebody else does
        return False
    finally:
        client.close()
    return [replica["master-link-status"] for replica in replicas] == ["ok"]


def _fails_over(watcher: StateClient) -> bool:
    try:
        watcher.execute_command("SENTINEL", "FAILOVER", "state")
    except redis.ResponseError:  # it does not yet know whether the replica is any good
        return False
    return True


def _start_cluster(stack: ExitStack, _folder: Path) -> StateServer:
    ports = [free_port() for _ in range(CLUSTER_NODES)]
    nodes = tuple(_start_node(stack, port) for port in ports)
    clients = [open_state_client(node.redis_url()) for node in nodes]
    edges = [SLOTS * number // CLUSTER_NODES for number in range(CLUSTER_NODES + 1)]
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", edges[number], edges[number + 1] - 1)
        client.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0])
    for client in clients:
        eventually(
            lambda client=client: _is_complete(client), 20, message="the cluster does not come together"
        )
        client.close()
    url = f"redis+cluster://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    return StateServer("cluster", url, url, nodes)


def _start_node(stack: ExitStack, port: int) -> EmbeddedServer:
    options = ["--port", str(port), "--cluster-enabled", "yes", "--cluster-node-timeout", PATIENT_MS]
    return stack.enter_context(EmbeddedServer(extra_args=options))


def _is_complete(client: StateClient) -> bool:
    state = client.execute_command("CLUSTER", "INFO")
    text = state.decode() if isinstance(state, bytes) else str(state)
    return all(
        word in text.replace("'", "").replace(": ", ":") for word in ("cluster_state:ok", "known_nodes:3")
    )


_STARTERS: Final = {
    "unix": _start_unix,
    "tls-acl": _start_tls_acl,
    "sentinel": _start_sentinel,
    "cluster": _start_cluster,
}
KINDS: Final = tuple(_STARTERS)


def free_port() -> int:
    """A loopback port that is free now, low enough for a cluster's bus at port + 10000."""
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        if port < 55_000:
            return port
    raise AssertionError("no free port below 55000")


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, by the openssl command."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=ditto-tests", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    subprocess.run(
        [*command, "-keyout", key, "-out", certificate, *subject], check=True, capture_output=True, timeout=30
    )
    return certificate, key
