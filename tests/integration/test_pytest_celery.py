"""pytest-celery's setup of broker, backend and worker: the same tests over containers and local processes."""

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_celery import (
    CELERY_REDIS_BACKEND,
    CELERY_REDIS_BROKER,
    CELERY_SETUP_WORKER,
    CeleryTestSetup,
    CeleryTestWorker,
)
from pytest_docker_tools import container, fxtr
from support.celery_nodes import (
    WORKER_IMAGE,
    DittoSetup,
    LocalServer,
    LocalWorker,
    ServerContainer,
    WorkerContainer,
    docker_is_there,
)
from support.polling import eventually

from ditto_tasks.client.sync import Ditto, Pending

IN_DOCKER = docker_is_there()
SESSIONS, CALLS = 6, 15
RESULT_S = 60.0  # a killed worker's shards move after five seconds; starting one takes longer here
GOAL = {"id": "goal", "content": "Answer from memory."}


@pytest.fixture(params=[CELERY_REDIS_BROKER])
def celery_broker(request: pytest.FixtureRequest) -> Any:
    """One kind of broker only."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[CELERY_REDIS_BACKEND])
def celery_backend(request: pytest.FixtureRequest) -> Any:
    """One kind of backend only."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[CELERY_SETUP_WORKER])
def celery_worker(request: pytest.FixtureRequest) -> Any:
    """One kind of worker only."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def celery_setup_cls() -> type[CeleryTestSetup]:
    return DittoSetup


@pytest.fixture
def default_worker_container_cls() -> type[WorkerContainer]:
    return WorkerContainer


@pytest.fixture
def default_redis_broker_cls() -> type[ServerContainer]:
    return ServerContainer


@pytest.fixture
def default_redis_backend_cls() -> type[ServerContainer]:
    return ServerContainer


if IN_DOCKER:
    default_redis_broker = container(
        image="{default_redis_broker_image}",
        ports=fxtr("default_redis_broker_ports"),
        network="{default_pytest_celery_network.name}",
        wrapper_class=ServerContainer,
        command=fxtr("default_redis_broker_command"),
    )
    default_redis_backend = container(
        image="{default_redis_backend_image}",
        ports=fxtr("default_redis_backend_ports"),
        network="{default_pytest_celery_network.name}",
        wrapper_class=ServerContainer,
        command=fxtr("default_redis_backend_command"),
    )
    default_worker_container = container(
        image=WORKER_IMAGE,
        environment=fxtr("default_worker_env"),
        network="{default_pytest_celery_network.name}",
        wrapper_class=WorkerContainer,
        command=fxtr("default_worker_command"),
    )
else:

    @pytest.fixture
    def default_redis_broker() -> Iterator[LocalServer]:
        yield from _running(LocalServer())

    @pytest.fixture
    def default_redis_backend() -> Iterator[LocalServer]:
        yield from _running(LocalServer())

    @pytest.fixture
    def default_worker_container(
        default_worker_env: dict[str, str], default_worker_command: list[str]
    ) -> Iterator[LocalWorker]:
        yield from _running(LocalWorker(default_worker_env, default_worker_command))


def _running(node: Any) -> Iterator[Any]:
    try:
        assert node.ready()
        yield node
    finally:
        node._container.remove()  # the process behind it, as pytest-docker-tools removes a container


@pytest.fixture
def client(celery_setup: CeleryTestSetup) -> Iterator[Ditto]:
    """A client of the setup's deployment."""
    with Ditto(celery_setup.app.settings) as opened:
        yield opened


def scope_of(session: int) -> dict[str, str]:
    return {"sessionId": f"nodes:{session}"}


def item(number: int) -> str:
    return f"item-{number:02}"


def send_updates(client: Ditto) -> list[Pending[Any]]:
    """Updates of several sessions, a session's in the order of their numbers."""
    for session in range(SESSIONS):
        client.context.load(scope=scope_of(session), sources=[GOAL]).get(RESULT_S)
    return [
        client.context.update(scope=scope_of(session), add=[{"id": item(number), "content": "text"}])
        for number in range(CALLS)
        for session in range(SESSIONS)
    ]


def check_updates(client: Ditto, sent: list[Pending[Any]]) -> None:
    """Each call was answered, and each session holds each item once, in the order of sending."""
    for pending in sent:
        pending.get(RESULT_S)
    for session in range(SESSIONS):
        selection = client.context.select(scope=scope_of(session), purpose="infer").get(RESULT_S)
        newest_first = [each.id for each in selection.context.items]
        assert newest_first[::-1] == ["goal", *map(item, range(CALLS))]


def test_ping(celery_setup: CeleryTestSetup, client: Ditto) -> None:
    """The worker answers Celery's ping and a node call."""
    # a broadcast reaches who listens: a worker says "ready" a moment before its loop subscribes
    assert len(eventually(lambda: celery_setup.app.control.ping(timeout=1), 30)) == 1
    assert client.context.load(scope=scope_of(0), sources=[GOAL]).get(RESULT_S).items == 1


def test_a_pipeline_with_a_chord(client: Ditto) -> None:
    """Two searches in a chord's header, their results in its body, and an answer at the end."""
    client.memory.write(memories=[{"content": "A lease lasts five seconds."}]).get(RESULT_S)
    answer = client.answer(scope_of(0), "How long does a lease last?", init=[GOAL], searches=[{}, {}])
    finished = answer.get(RESULT_S)
    assert "five seconds" in finished.text
    assert len(finished.searches) == 2


def test_a_worker_restart_loses_nothing(celery_worker: CeleryTestWorker, client: Ditto) -> None:
    """Calls that wait while the worker stops and starts are answered, once each and in order."""
    sent = send_updates(client)
    celery_worker.restart()
    check_updates(client, sent)


def test_a_killed_worker_loses_nothing(celery_worker: CeleryTestWorker, client: Ditto) -> None:
    """Calls of a worker that was killed in the middle are answered by the next, once each and in order."""
    sent = send_updates(client)
    celery_worker.kill()
    celery_worker.restart()
    check_updates(client, sent)


def test_a_broker_restart_loses_nothing(celery_setup: CeleryTestSetup, client: Ditto) -> None:
    """Calls in the broker when it stops are answered after it started, once each and in order."""
    sent = send_updates(client)
    celery_setup.broker.restart()
    check_updates(client, sent)
