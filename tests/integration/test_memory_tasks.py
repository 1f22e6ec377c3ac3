"""The MEMORY tasks through a real worker on their queue."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.workers import RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the worker's memory is."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def app(server: EmbeddedServer, url: str) -> Iterator[DittoCelery]:
    """A client of a worker that serves the memory queue."""
    app = client_app(server)
    with WorkerProcess(
        server, queues=["ditto.memory"], env={"DITTO_WORKER_MEMORY_URL": url}, args=["-P", "solo"]
    ):
        yield app
    app.close()


def ask(app: DittoCelery, node: str, task_id: str | None = None, **wire: object) -> dict[str, object]:
    """Send a task and wait for its NodeResult."""
    return app.send_task(node, kwargs=wire, task_id=task_id).get(timeout=RESULT_TIMEOUT_S)


def test_the_six_nodes_as_tasks(app: DittoCelery) -> None:
    """Each MEMORY task answers its NodeResult once, with its task id as executionId; failures are results."""
    written = ask(app, "MEMORY.WRITE", "w1", memories=[{"content": "shard lease", "key": "k"}])
    assert (written["executionId"], written["node"], written["status"]) == ("w1", "MEMORY.WRITE", "success")
    (item,) = written["output"]
    assert ask(app, "MEMORY.GET", keys=["k"])["output"] == [item]
    assert ask(app, "MEMORY.QUERY")["output"] == {"items": [item]}
    (found,) = ask(app, "MEMORY.SEARCH", query="lease")["output"]
    assert found["memory"] == item
    updated = ask(app, "MEMORY.UPDATE", memories=[{"id": item["id"], "content": None}])
    assert updated["output"] == [{**item, "content": None}]
    assert ask(app, "MEMORY.DELETE", ids=[item["id"]])["output"] == {"deleted": [item["id"]]}
    refused = ask(app, "MEMORY.QUERY", limit=0)
    assert (refused["status"], refused["error"]["code"]) == ("failed", "INVALID_INPUT")


def test_a_write_delivered_twice_writes_once(app: DittoCelery, url: str) -> None:
    """A WRITE with the same task id, or the same operationId, writes no second record."""
    first = ask(app, "MEMORY.WRITE", "w1", memories=[{"content": "one"}])
    again = ask(app, "MEMORY.WRITE", "w1", memories=[{"content": "one"}])
    other = ask(app, "MEMORY.WRITE", "w2", memories=[{"content": "one"}], ditto={"operationId": "w1"})
    assert first["output"] == again["output"] == other["output"]
    store = SqlMemoryStore(url)
    assert len(MemoryNodes(store).query({}).output["items"]) == 1
    store.close()
