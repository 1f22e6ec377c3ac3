"""`ditto up` as a person uses it: started, looked at, stopped; nothing stays."""

import base64
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from support.polling import eventually
from support.servers import free_port

from ditto_tasks import Ditto, load_settings

START_S = 60.0  # two Python processes import Celery on a busy machine


class Up:
    """A running `ditto up` whose output goes to a file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / "up.log"
        variables = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
        command = ["-m", "ditto_tasks", "up", "--directory", str(folder / "data"), "--concurrency", "2"]
        command += ["--flower-port", str(free_port()), *options]  # the usual one may be in use
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-u", *command], stdout=log, stderr=log, env=variables, cwd=folder
            )

    def said(self, pattern: str) -> re.Match[str]:
        """The first line that matches, waited for while the process lives."""
        return eventually(lambda: self._search(pattern), START_S, message=f"{pattern} not in: {self.text()}")

    def _search(self, pattern: str) -> re.Match[str] | None:
        assert self.process.poll() is None, self.text()
        return re.search(pattern, self.text())

    def text(self) -> str:
        """All output so far."""
        return self.log.read_text("utf-8", "replace")

    def children(self) -> set[int]:
        """The processes that `up` has started and that run."""
        return {pid for pid, parent in processes().items() if parent == self.process.pid}


def processes() -> dict[int, int]:
    """Parent by process, for all processes of this machine that are not yet dead."""
    shown = subprocess.run(["ps", "-eo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in shown.stdout.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def commands() -> dict[int, str]:
    """What each process of this machine runs."""
    shown = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True)
    return {int(pid): command for pid, command in (line.split(None, 1) for line in shown.stdout.splitlines())}


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A stack of its own; ended the hard way if the test does not end it."""
    running = Up(tmp_path)
    yield running
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def fetch(address: str, path: str, credential: str | None = None, *, method: str = "GET") -> int:
    """The status of a request to Flower."""
    headers = {}
    if credential is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(credential.encode()).decode()
    connection = HTTPConnection(address.removeprefix("http://"), timeout=10)
    with closing(connection):
        connection.request(method, path, headers=headers)
        return connection.getresponse().status


def test_up_runs_the_stack_and_ctrl_c_ends_all_of_it(up: Up) -> None:
    """The worker gets ready, Flower asks for the printed credential, and Ctrl-C leaves no process."""
    address, credential = up.said(r"Flower: (\S+)\s+(\S+)").groups()
    up.said(r"celery@\S+ ready")
    up.said("Visit me")
    assert fetch(address, "/workers") == 401
    assert fetch(address, "/workers", credential) == 200
    assert fetch(address, "/api/task/send-task/CONTEXT.LOAD", credential, method="POST") == 404
    children = up.children()
    assert len(children) == 3
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(40) == 0
    eventually(lambda: not children & processes().keys())


def test_up_announces_itself_below_the_logs_of_its_start(up: Up) -> None:
    """What another shell needs is the last that was said, once all works."""
    up.said(r"(?s)(export DITTO_BROKER_URL=.*){2}")
    up.said(r"(?s)celery@\S+ ready.*Flower: .*export DITTO_BROKER_URL=.*Stop with Ctrl-C")
    up.said(r"(?s)Visit me.*Flower: .*export DITTO_BROKER_URL=")


def test_up_ends_when_its_server_does(up: Up) -> None:
    """Worker and Flower would try to reach it for ever."""
    up.said(r"celery@\S+ ready")
    (server,) = [pid for pid in up.children() if "valkey" in commands()[pid] or "redis" in commands()[pid]]
    os.kill(server, signal.SIGKILL)
    assert up.process.wait(60) == 1
    assert "Error: the embedded server ended by itself" in up.text()


APPLICATION = """
from ditto_tasks.celery import create_app
from ditto_tasks.nodes import NodeType

HANDLERS = {"TEXT.COUNT": lambda call: {"words": len(call.wire["text"].split())}}
app = create_app(nodes=[NodeType("TEXT.COUNT", "TEXT", handlers="counting")])
"""


def test_up_serves_an_application_with_nodes_of_its_own(tmp_path: Path) -> None:
    """With -A the one worker knows the application's nodes, and a client in another shell calls them."""
    (tmp_path / "counting.py").write_text(APPLICATION, "utf-8")
    running = Up(tmp_path, "-A", "counting")
    try:
        running.said(r"celery@\S+ ready")
        exports = dict(re.findall(r"export (\w+)='(.*)'", running.text()))
        with Ditto(load_settings(None, exports)) as client:
            assert client.invoke("TEXT.COUNT", {"text": "one two"}).get(timeout=20) == {"words": 2}
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(40) == 0
    finally:
        running.process.kill()
        running.process.wait()


def test_a_killed_up_takes_everything_with_it(up: Up) -> None:
    """After kill -9 of `ditto up` neither server nor worker nor Flower lives on."""
    up.said(r"celery@\S+ ready")
    children = up.children()
    up.process.kill()
    up.process.wait()
    eventually(lambda: not children & processes().keys())
