"""Fixtures that every folder of tests shares."""

from collections.abc import Iterator

import pytest
import redis
from hypothesis import HealthCheck, settings
from support.keys import keys_without_ttl
from support.slow_files import turn

from ditto_tasks.embedded import EmbeddedServer

BROKER_DB, RESULT_DB, CONTEXT_DB = 0, 1, 2  # the databases that `ditto up` uses

# a property holds or not; how long an example takes, or making it, on a busy machine is no part of it
settings.register_profile("ditto", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ditto")


@pytest.hookimpl(trylast=True)  # pytest groups by parameters of fixtures before
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first: the processes that share the suite then end at about the same time."""
    items.sort(key=lambda item: turn(item.nodeid.split("::")[0]))


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """A private server for all tests of this process; each test finds it empty."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def redis_client(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    """A client on the database that contexts live in."""
    client = redis.Redis.from_url(server.redis_url(CONTEXT_DB))
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _keys_have_a_ttl(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves a key with no TTL which docs/operations.md does not call permanent."""
    if "server" not in request.fixturenames:
        yield
        return
    running: EmbeddedServer = request.getfixturevalue("server")
    clients = {db: redis.Redis.from_url(running.redis_url(db)) for db in (BROKER_DB, RESULT_DB, CONTEXT_DB)}
    clients[BROKER_DB].flushall()
    yield
    try:
        lasting = {db: keys for db, client in clients.items() if (keys := keys_without_ttl(client))}
        assert not lasting, f"keys without a TTL, by database: {lasting}"
    finally:
        for client in clients.values():
            client.close()
