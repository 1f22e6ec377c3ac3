"""Searches that are stopped while they run: the caller hears it soon, and what they wait for is let go."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from support.polling import eventually
from support.provider_server import ProviderServer, as_json, hang
from support.searches_extension import NAME
from support.workers import BROKER_DB, RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer

MEMORY = {"target": {"name": "memory"}, "query": {"content": "q"}}
SLOW = {"target": {"name": "slow"}, "query": {"content": "q"}}
BROAD = {**SLOW, "strategy": "hybrid"}
RERANKED = {**SLOW, "strategy": "rerank"}


@pytest.fixture(scope="module")
def embedder() -> Iterator[ProviderServer]:
    with ProviderServer(hang()) as running:
        yield running


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="module")
def worker(
    own_server: EmbeddedServer, embedder: ProviderServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """RETRIEVAL's memory is in a folder of Qdrant's with embeddings over HTTP; MEMORY's search blocks."""
    folder: Path = tmp_path_factory.mktemp("points")
    env = {
        "DITTO_EXTENSIONS": NAME,
        "DITTO_WORKER_MEMORY_URL": f"qdrant+local://{folder}/points",
        "DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS": "2",
        "DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL": embedder.url,
        "DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL": "m",
    }
    with WorkerProcess(own_server, queues=["ditto.memory", "ditto.retrieval"], env=env) as running:
        yield running


@pytest.fixture(scope="module")
def app(own_server: EmbeddedServer, worker: WorkerProcess) -> Iterator[DittoCelery]:
    opened = client_app(own_server)
    yield opened
    opened.close()


@pytest.fixture
def provider_server(embedder: ProviderServer) -> ProviderServer:
    embedder.requests.clear()
    embedder.client_closed.clear()
    embedder.then(hang())
    return embedder


def now_ms(server: EmbeddedServer) -> int:
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as client:
        seconds, micros = client.time()
    return int(seconds) * 1000 + int(micros) // 1000


def outcome(result: dict[str, object]) -> tuple[object, object]:
    return result["status"], result["error"]["code"]  # type: ignore[index]  # an object


CASES = [
    ("RETRIEVAL.SEARCH", MEMORY, "RETRIEVAL_"),
    ("RETRIEVAL.SEARCH", BROAD, "RETRIEVAL_"),
    ("RETRIEVAL.SEARCH", RERANKED, "RETRIEVAL_"),
]


@pytest.mark.parametrize(("node", "wire", "prefix"), CASES, ids=["memory", "hybrid", "rerank"])
def test_a_cancel_closes_the_embedding_request(
    app: DittoCelery, provider_server: ProviderServer, node: str, wire: dict[str, object], prefix: str
) -> None:
    """A running search whose embedding does not answer ends as cancelled, and its request is closed."""
    task_id = uuid4().hex
    running = app.send_task(node, kwargs=wire, task_id=task_id)
    eventually(lambda: provider_server.requests, RESULT_TIMEOUT_S)
    app.coordination.cancel(task_id)
    assert outcome(running.get(timeout=RESULT_TIMEOUT_S)) == ("cancelled", f"{prefix}CANCELLED")
    assert provider_server.client_closed.wait(RESULT_TIMEOUT_S)


@pytest.mark.parametrize(("node", "wire", "prefix"), CASES, ids=["memory", "hybrid", "rerank"])
def test_a_deadline_closes_the_embedding_request(
    app: DittoCelery,
    own_server: EmbeddedServer,
    provider_server: ProviderServer,
    node: str,
    wire: dict[str, object],
    prefix: str,
) -> None:
    """Past deadlineMs a running search is a timeout, and its request is closed."""
    options = {"deadlineMs": now_ms(own_server) + 1_500}
    late = app.send_task(node, kwargs={**wire, "ditto": options}).get(timeout=RESULT_TIMEOUT_S)
    assert outcome(late) == ("timeout", f"{prefix}TIMEOUT")
    assert len(provider_server.requests) == 1
    assert provider_server.client_closed.wait(RESULT_TIMEOUT_S)


BLOCKED = [
    ("RETRIEVAL.SEARCH", {**SLOW, "strategy": "blocked"}, "RETRIEVAL_CANCELLED"),
    ("MEMORY.SEARCH", {"query": "q"}, "CANCELLED"),
]


@pytest.mark.parametrize(("node", "wire", "code"), BLOCKED)
def test_a_blocked_backend_does_not_hold_a_cancelled_call(
    app: DittoCelery, own_server: EmbeddedServer, node: str, wire: dict[str, object], code: str
) -> None:
    """A backend that knows no token, as a long SQL query, is left behind, and the worker goes on."""
    task_id = uuid4().hex
    running = app.send_task(node, kwargs=wire, task_id=task_id)
    with redis.Redis.from_url(own_server.redis_url(BROKER_DB)) as client:
        eventually(lambda: client.getdel("test:blocked"), RESULT_TIMEOUT_S)
    app.coordination.cancel(task_id)
    assert outcome(running.get(timeout=RESULT_TIMEOUT_S)) == ("cancelled", code)
    assert (
        app.send_task("MEMORY.GET", kwargs={"ids": []}).get(timeout=RESULT_TIMEOUT_S)["status"] == "success"
    )


@pytest.mark.parametrize(("node", "wire", "code"), [("RETRIEVAL.SEARCH", MEMORY, "RETRIEVAL_"), *BLOCKED[1:]])
def test_a_search_that_was_stopped_before_it_began(
    app: DittoCelery, provider_server: ProviderServer, node: str, wire: dict[str, object], code: str
) -> None:
    """It has the code of its domain, and asks nobody."""
    prefix, task_id = code.removesuffix("CANCELLED"), uuid4().hex
    app.coordination.cancel(task_id)
    stopped = app.send_task(node, kwargs=wire, task_id=task_id).get(timeout=RESULT_TIMEOUT_S)
    assert outcome(stopped) == ("cancelled", f"{prefix}CANCELLED")
    late = app.send_task(node, kwargs={**wire, "ditto": {"deadlineMs": 1}}).get(timeout=RESULT_TIMEOUT_S)
    assert outcome(late) == ("timeout", f"{prefix}TIMEOUT")
    assert provider_server.requests == []


def test_the_worker_still_searches(app: DittoCelery, provider_server: ProviderServer) -> None:
    """After all that a search that is answered succeeds."""
    provider_server.then(as_json({"data": [{"index": 0, "embedding": [1.0, 0.0]}]}))
    found = app.send_task("RETRIEVAL.SEARCH", kwargs=MEMORY).get(timeout=RESULT_TIMEOUT_S)
    assert (found["status"], found["output"]["candidates"]) == ("success", [])
