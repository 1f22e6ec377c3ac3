"""MEMORY opened from settings: one URL, or the variables of one kind, or services of extensions."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.memories import code, contents, output, remember

from ditto_tasks.cli import celery_group
from ditto_tasks.errors import MemoryError, SettingsError
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.opening import DIMENSIONS, open_memory, open_store, without_vectors
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.settings import default_settings, load_settings

PASSWORD = "hunter2-canary"
SERVICE = {
    "DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL": "http://h/v1",
    "DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL": "m",
}


def sqlite_url(directory: Path) -> str:
    """The URL of a memory file in `directory`."""
    return f"sqlite:///{directory / 'memory.db'}"


def test_a_sqlite_file_is_ready_at_once(tmp_path: Path) -> None:
    """With a sqlite URL the nodes work without preparation, and what they wrote is there when reopened."""
    settings = default_settings({"DITTO_WORKER_MEMORY_URL": sqlite_url(tmp_path)})
    first = open_memory(settings, {})
    remember(first, "kept")
    first.close()
    again = open_memory(settings, {})
    assert contents(again.query({})) == ["kept"]
    again.close()


def test_limits_come_from_settings(tmp_path: Path) -> None:
    """workers.memory.searchLimit and queryLimit are the limits of requests that name none."""
    config = tmp_path / "ditto.yaml"
    config.write_text("workers:\n  memory:\n    queryLimit: 2\n    searchLimit: 1\n    concurrency: 1\n")
    env = {"DITTO_CONFIG": str(config), "DITTO_WORKER_MEMORY_URL": sqlite_url(tmp_path)}
    nodes = open_memory(load_settings(None, env), {})
    remember(nodes, "fox 1", "fox 2", "fox 3")
    assert len(contents(nodes.query({}))) == 2
    assert len(contents(nodes.search({"query": "fox"}))) == 1
    nodes.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true"])
def test_databases_in_memory_are_refused(url: str) -> None:
    """A SQLite database that is no file is refused: workers wouldn't share it."""
    with pytest.raises(SettingsError, match="must be a file") as caught:
        open_store(default_settings({"DITTO_WORKER_MEMORY_URL": url}))
    assert "DITTO_WORKER_MEMORY_URL" in caught.value.message
    assert "for example sqlite:///" in caught.value.message


def test_two_ways_to_say_where_are_refused(tmp_path: Path) -> None:
    """The URL together with the variables of PostgreSQL or Qdrant is an error that names both."""
    env = {
        "DITTO_WORKER_MEMORY_URL": sqlite_url(tmp_path),
        "DITTO_WORKER_MEMORY_POSTGRES_URL": f"postgresql://u:{PASSWORD}@h/d",
    }
    with pytest.raises(SettingsError) as caught:
        open_store(default_settings(env))
    assert "DITTO_WORKER_MEMORY_URL" in str(caught.value)
    assert "DITTO_WORKER_MEMORY_POSTGRES_URL" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("env", [{}, {"DITTO_WORKER_MEMORY_URL": f"oracle://u:{PASSWORD}@h/d"}])
def test_no_and_unknown_databases_are_refused(env: dict[str, str]) -> None:
    """Without a URL, or with one of an unknown kind, the error names the variable and no password."""
    with pytest.raises(SettingsError, match="DITTO_WORKER_MEMORY_URL") as caught:
        open_store(default_settings(env))
    assert PASSWORD not in str(caught.value)


def test_services_take_the_place_of_configuration(tmp_path: Path) -> None:
    """An extension's store and search are used as they are; anything else under these names is refused."""
    store = SqlMemoryStore(sqlite_url(tmp_path))
    nodes = open_memory(default_settings({}), {"store": store, "search": store})
    assert isinstance(nodes, MemoryNodes)
    assert nodes.store is store
    with pytest.raises(TypeError, match="MemoryStore"):
        open_memory(default_settings({}), {"store": object()})
    with pytest.raises(TypeError, match="MemorySearchProvider"):
        open_memory(default_settings({}), {"store": store, "search": object()})
    store.close()


@pytest.mark.parametrize("table", ["Memories", "1a", "a-b", "a;b", 'a"b', "", "a" * 41, "a b", "ä"])
def test_table_names_are_plain(tmp_path: Path, table: str) -> None:
    """A table name with anything but lower-case letters, digits and _ is refused."""
    with pytest.raises(MemoryError, match="INVALID_INPUT"):
        SqlMemoryStore(sqlite_url(tmp_path), table=table)


def test_an_unreachable_database_is_a_failed_result(tmp_path: Path) -> None:
    """A database that can't be opened is MEMORY_BACKEND_ERROR; neither path nor password is told."""
    for url in (f"sqlite:///{tmp_path}/missing-canary/m.db", f"postgresql://u:{PASSWORD}@127.0.0.1:1/canary"):
        store = SqlMemoryStore(url)
        result = MemoryNodes(store).query({})
        assert code(result) == "MEMORY_BACKEND_ERROR"
        assert "canary" not in result.model_dump_json()
        store.close()


def test_init_creates_the_schema_once(tmp_path: Path) -> None:
    """`ditto memory init` says which version it made, and that it was there when repeated."""
    env = {"DITTO_WORKER_MEMORY_URL": sqlite_url(tmp_path)}
    first = CliRunner().invoke(celery_group, ["memory", "init"], env=env)
    again = CliRunner().invoke(celery_group, ["memory", "init"], env=env)
    assert (first.exit_code, first.output) == (0, "memory schema: version 0 -> 2\n")
    assert (again.exit_code, again.output) == (0, "memory schema: version 2\n")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """A database of a later version of this package is not touched."""
    store = SqlMemoryStore(sqlite_url(tmp_path))
    store.migrate()
    with store._engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO memories_schema VALUES (1000)")
    store.close()
    store = SqlMemoryStore(sqlite_url(tmp_path))
    assert code(MemoryNodes(store).query({})) == "SCHEMA_OUTDATED"
    assert output(MemoryNodes(store).get({"ids": []})) == []
    store.close()


@pytest.mark.parametrize("url", ["sqlite:///memory.db", "mysql://h/d", "mariadb://h/d"])
def test_vectors_of_a_memory_that_keeps_none_are_refused(url: str) -> None:
    """Dimensions for SQLite or MySQL are an error that names them, and not ignored."""
    env = {"DITTO_WORKER_MEMORY_URL": url, DIMENSIONS: "3", **SERVICE}
    with pytest.raises(SettingsError, match=f"{DIMENSIONS}.*PostgreSQL and Qdrant"):
        open_store(default_settings(env))


def test_vectors_without_an_embedding_are_refused() -> None:
    """Dimensions for PostgreSQL without a model of embeddings are an error that names both."""
    env = {"DITTO_WORKER_MEMORY_URL": "postgresql://h/d", DIMENSIONS: "3"}
    with pytest.raises(SettingsError, match=f"{DIMENSIONS}.*EMBEDDING_MODEL"):
        open_store(default_settings(env))


@pytest.mark.parametrize(
    ("url", "reason"),
    [("sqlite:///memory.db", "only PostgreSQL and Qdrant"), ("postgresql://h/d", f"{DIMENSIONS} is not set")],
)
def test_an_embedding_that_memory_does_not_use_is_told(
    url: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An embedding without vectors in memory is no error, for RETRIEVAL may have use of it, but is logged."""
    settings = default_settings({"DITTO_WORKER_MEMORY_URL": url, **SERVICE})
    open_store(settings).close()
    assert "memory has no vectors" in caplog.text
    assert reason in caplog.text
    assert without_vectors(default_settings({"DITTO_WORKER_MEMORY_URL": url})) is None
    with_vectors = {"DITTO_WORKER_MEMORY_URL": "postgresql://h/d", DIMENSIONS: "3", **SERVICE}
    assert without_vectors(default_settings(with_vectors)) is None
