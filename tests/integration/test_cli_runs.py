"""`ditto runs` over a real deployment: lists, shows, draws, cancels and resumes, and tells no content."""

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from click.testing import CliRunner, Result
from support import graph_fixtures as fixtures
from support.flows import FlowDeployment
from support.graphs import constant, load
from support.polling import eventually

from ditto_tasks import Ditto
from ditto_tasks.cli import celery_group
from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.graphs import Graph

CANARY = "canary-31f2"
WAIT_S = 30.0
SCOPE = {"sessionId": f"acme:{CANARY}"}
running, client = fixtures.running, fixtures.client


@pytest.fixture
def broker(running: FlowDeployment) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(running.server.redis_url(0)) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _variables(running: FlowDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)


def runs(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(celery_group, ["runs", *arguments])
    assert result.exit_code == code, result.output
    assert CANARY not in result.output
    return result


def ids(*arguments: str) -> list[str]:
    return [json.loads(line)["id"] for line in runs("list", "--json", *arguments).stdout.splitlines()]


def two_steps() -> Graph:
    return Graph("two steps", [constant("first", CANARY), load("second", "first")])


def failing() -> Graph:
    return Graph("once", [constant("first", CANARY), load("shaky", "first", binding="test.once")])


def test_a_run_is_listed_and_drawn(client: Ditto, tmp_path: Path) -> None:
    """Its name, state and nodes with their times are shown, in the terminal, as JSON and as a picture."""
    run = client.run(two_steps(), {"text": CANARY}, scope=SCOPE)
    run.get(WAIT_S)
    assert run.id in ids()
    assert run.id in ids("--tenant", "acme")
    assert run.id not in ids("--tenant", "other")
    assert run.id in ids("--state", "done")
    assert run.id not in ids("--state", "running")
    shown = runs("show", run.id, "--svg", str(tmp_path / "run.svg")).stdout
    assert "graph two steps · done · 2 of 2 nodes" in shown
    assert shown.count("✓ done") == 2
    view = json.loads(runs("show", run.id, "--json").stdout)
    assert [node["state"] for node in view["nodes"]] == ["done", "done"]
    assert all(node["endedMs"] >= node["startedMs"] >= view["openedMs"] for node in view["nodes"])
    picture = (tmp_path / "run.svg").read_text("utf-8")
    ET.fromstring(picture)  # noqa: S314 -- our own
    assert "second" in picture
    assert CANARY not in picture


def test_answers_are_runs_too(client: Ditto) -> None:
    """An answering pipeline shows its steps, one after another."""
    pending = client.answer(SCOPE, CANARY, create=True, searches=[{"node": "MEMORY.SEARCH"}])
    with pytest.raises(Exception, match="DITTO_WORKER_MEMORY_URL"):
        pending.get(WAIT_S)
    shown = runs("show", pending.id).stdout
    assert shown.startswith("answer · failed")
    nodes = json.loads(runs("show", pending.id, "--json").stdout)["nodes"]
    assert {node["id"]: node["state"] for node in nodes} == {
        "search-0": "done",  # its failed NodeResult is what the update refused
        "update": "failed",
        **dict.fromkeys(["select", "sample", "turn"], "skipped"),
    }
    assert nodes[1]["endedMs"] >= nodes[1]["startedMs"]
    assert "search-0" in shown
    assert "INVALID_SETTINGS" in shown
    assert "RUN_NOT_RESUMABLE" in runs("resume", pending.id, code=1).output


def test_pages_follow_one_another(client: Ditto) -> None:
    """A listing with a limit prints how to go on, and all runs come once."""
    started = [client.run(two_steps(), None) for _ in range(5)]
    for run in started:
        run.get(WAIT_S)
    everything, seen, cursor = ids("--limit", "1000"), [], None
    while True:
        more = ["--cursor", cursor] if cursor else []
        result = runs("list", "--json", "--limit", "2", *more)
        seen += [json.loads(line)["id"] for line in result.stdout.splitlines()]
        if not result.stderr:
            break
        cursor = result.stderr.split("--cursor ")[1].strip()
    assert seen == everything
    assert seen[:5] == [run.id for run in reversed(started)]


def test_a_run_is_cancelled(client: Ditto, broker: redis.Redis) -> None:
    """A running run is stopped, once; the nodes that had not begun are skipped."""
    key = uuid4().hex
    run = client.run(Graph("waits", [load("slow", binding="test.wait"), load("never", "slow")]), {"key": key})
    eventually(lambda: "▶ running" in runs("show", run.id).stdout, WAIT_S)
    runs("cancel", run.id)
    broker.set(f"test:go:{key}", "1", ex=60)
    assert "RUN_NOT_RUNNING: the run is cancelled" in runs("cancel", run.id, code=1).output
    assert "– skipped" in runs("show", run.id).stdout


def test_a_failed_run_goes_on(client: Ditto) -> None:
    """The error is shown with its node; resumed, the run ends, and what was settled was not done again."""
    run = client.run(failing(), {"key": uuid4().hex})
    with pytest.raises(PipelineError):
        run.get(WAIT_S)
    assert "BINDING_FAILED (node shaky)" in runs("show", run.id).stdout
    first = json.loads(runs("show", run.id, "--json").stdout)["nodes"][0]
    runs("resume", run.id, "--timeout", "5m")
    run.get(WAIT_S)
    after = json.loads(runs("show", run.id, "--json").stdout)
    assert (after["state"], after["nodes"][0]) == ("done", first)
    assert "RUN_NOT_STOPPED: the run is done" in runs("resume", run.id, code=1).output


def test_following_ends_with_the_run(client: Ditto, broker: redis.Redis) -> None:
    """`show --follow` draws until the run has ended, and says by its exit code how."""
    key = uuid4().hex
    run = client.run(Graph("waits", [load("slow", binding="test.wait")]), {"key": key})
    timer = threading.Timer(0.5, lambda: broker.set(f"test:go:{key}", "1", ex=60))
    timer.start()
    assert "graph waits · done" in runs("show", run.id, "--follow").stdout
    timer.join()
    failed = client.run(Graph("fails", [load("bad", binding="test.fail")]), None)
    assert "BINDING_FAILED (node bad)" in runs("show", failed.id, "--follow", code=1).stdout


@pytest.mark.parametrize("command", ["show", "cancel", "resume"])
def test_an_unknown_run_is_one_line(command: str) -> None:
    """No such run: a typed error, and exit code 1."""
    assert "RUN_NOT_FOUND" in runs(command, "nobody", code=1).output


def test_wrong_options_are_told(tmp_path: Path, client: Ditto) -> None:
    """A tenant that cannot be, an unknown state, and a picture that can't be written."""
    assert "--tenant" in runs("list", "--tenant", "a:b", code=2).output
    assert "--state" in runs("list", "--state", "lost", code=2).output
    run = client.run(two_steps(), None)
    run.get(WAIT_S)
    assert "FILE_NOT_WRITTEN" in runs("show", run.id, "--svg", str(tmp_path / "no" / "x.svg"), code=1).output
