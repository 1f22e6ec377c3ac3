"""The ACL lines of docs/operations.md are enough for clients, workers and the doctor."""

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from support.workers import RESULT_TIMEOUT_S, WorkerProcess

from ditto_tasks import Ditto
from ditto_tasks.celery import create_app
from ditto_tasks.cli import celery_group
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.settings import load_settings

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"
PASSWORD = "acl-canary"


@dataclass(frozen=True)
class Guarded:
    """A server on which only the documented users may do anything."""

    server: EmbeddedServer
    env: dict[str, str]


def free_port() -> int:
    """A port of the loopback address that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """The users as documented, the default user switched off, and URLs that log in."""
    port = free_port()
    with EmbeddedServer(extra_args=["--port", str(port)]) as server:
        lines = re.findall(r"^ACL SETUSER (.*)$", OPERATIONS.read_text("utf-8"), re.MULTILINE)
        with redis.Redis.from_url(server.redis_url()) as admin:
            for line in [*lines, "default off"]:
                admin.execute_command("ACL", "SETUSER", *line.replace("PASSWORD", PASSWORD).split())
        address = f"{PASSWORD}@127.0.0.1:{port}"
        yield Guarded(
            server,
            {
                "DITTO_BROKER_URL": f"redis://ditto:{address}/0",
                "DITTO_RESULT_BACKEND_URL": f"redis://ditto:{address}/1",
                "DITTO_WORKER_CONTEXT_REDIS_URL": f"redis://ditto-state:{address}/2",
                "DITTO_WORKER_MEMORY_URL": f"sqlite:///{tmp_path}/memory.sqlite3",
            },
        )


def test_tasks_run_under_the_documented_acl(guarded: Guarded) -> None:
    """Scoped and plain tasks run through a worker that has the documented rights only."""
    app = create_app(load_settings(None, guarded.env))
    scope = {"sessionId": "acl"}
    with WorkerProcess(guarded.server, env=guarded.env, args=()):  # all that a worker does by default
        sources = [{"role": "user", "content": "hello"}]
        loaded = app.send_task("CONTEXT.LOAD", kwargs={"scope": scope, "sources": sources})
        assert loaded.get(timeout=RESULT_TIMEOUT_S)["items"] == 1
        added = [{"id": "a", "content": "b"}]
        updated = app.send_task("CONTEXT.UPDATE", kwargs={"scope": scope, "add": added})
        assert updated.get(timeout=RESULT_TIMEOUT_S)["items"] == 2
        selected = app.send_task("CONTEXT.SELECT", kwargs={"scope": scope, "purpose": "infer"})
        assert len(selected.get(timeout=RESULT_TIMEOUT_S)["selectedItemIds"]) == 2
    app.close()


def test_graphs_run_and_are_seen_under_the_documented_acl(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run, its listing, its resume that changes nothing, and its erasure need no more rights."""
    for name, value in guarded.env.items():
        monkeypatch.setenv(name, value)
    load = GraphNode("a", "CONTEXT.LOAD", input={"sources": [{"role": "user", "content": "hello"}]})
    with WorkerProcess(guarded.server, env=guarded.env), Ditto(load_settings(None, guarded.env)) as ditto:
        run = ditto.run(Graph("one", [load]), scope={"sessionId": "acl:1"})
        assert run.get(RESULT_TIMEOUT_S).keys() == {"a"}
        assert ditto.resume(run.id).get(RESULT_TIMEOUT_S).keys() == {"a"}
        commands = (["runs", "list"], ["runs", "show", run.id], ["erase", "--tenant", "acl"])
        shown = [CliRunner().invoke(celery_group, command) for command in commands]
        assert [result.exit_code for result in shown] == [0, 0, 0], [result.output for result in shown]


def test_the_doctor_is_content_with_the_documented_acl(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ditto doctor` finds nothing wrong, and does not show the password."""
    for name in [name for name in os.environ if name.startswith("DITTO_TEST_")]:
        monkeypatch.delenv(name)  # of the suite, and read by nothing else
    for name, value in guarded.env.items():
        monkeypatch.setenv(name, value)
    assert CliRunner().invoke(celery_group, ["memory", "init"]).exit_code == 0
    result = CliRunner().invoke(celery_group, ["doctor"])
    assert result.exit_code == 0, result.output
    warnings = [line for line in result.output.splitlines() if line.startswith("warning")]
    assert [line for line in warnings if "workers: none runs" not in line] == []
    assert PASSWORD not in result.output
