"""What the consumer's loop waits for when a broker takes connections and answers nothing."""

import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from ditto_tasks.state.redis import open_state_client
from ditto_tasks.worker.peeks import Peeks


class Loop:
    """No peek is ever answered."""

    def add_reader(self, fds: int, callback: Callable[..., object], *args: object) -> None:
        raise AssertionError("nobody has answered")

    def remove_reader(self, fd: int) -> None:
        raise AssertionError("nothing was added")


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[socket.socket]:
    """A broker that the kernel lets everybody connect to, and no more."""
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(100)
        listening.settimeout(0)
        yield listening


def test_a_broker_that_answers_nothing_blocks_the_loop_once(frozen: socket.socket) -> None:
    """Whoever watches many shards tries to connect for one of them, not for each in its turn."""
    client = cast("Redis", open_state_client(f"unix://{frozen.getsockname()}", timeout_ms=50))
    peeks = Peeks(client, Loop(), [].append)
    for shard in range(64):
        peeks.watch(shard)
    client.close()
    assert tries(frozen) == 1


def tries(listening: socket.socket) -> int:
    """How many have connected."""
    try:
        connection, _ = listening.accept()
    except BlockingIOError:
        return 0
    connection.close()
    return 1 + tries(listening)
