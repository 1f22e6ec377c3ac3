"""SQLAlchemy engines, set up so that a transaction means the same on every database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.stores.sql.core import (
    URL,
    ArgumentError,
    Connection,
    Engine,
    SQLAlchemyError,
    create_engine,
    event,
    make_url,
)

BUSY_TIMEOUT_MS: Final = 10_000  # how long a SQLite writer waits for another one
CONNECT_TIMEOUT_S: Final = 5
POOL_TIMEOUT_S: Final = 30
DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_ALIASES: Final = {"postgres": "postgresql", "mariadb": "mysql"}
READS: Final = "ditto_reads"  # the execution option of connections that only read


class _DriverConnection(Protocol):
    isolation_level: str | None

    def execute(self, statement: str, /) -> object: ...


def open_engine(url: str) -> Engine:
    """An engine for ``url``; nothing is connected before the first use."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed)
    connect_args: dict[str, object] = {"connect_timeout": CONNECT_TIMEOUT_S}
    if parsed.get_backend_name() == "mysql":
        connect_args["charset"] = "utf8mb4"
    return create_engine(
        parsed,
        connect_args=connect_args,
        pool_timeout=POOL_TIMEOUT_S,
        hide_parameters=True,
        # a key that another writer committed meanwhile must be visible to the statement after the INSERT
        isolation_level="READ COMMITTED",
    )


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of database and driver as MEMORY_BACKEND_ERROR: their text can hold addresses and content."""
    try:
        yield
    except SQLAlchemyError as exc:
        kind = type(getattr(exc, "orig", None) or exc).__name__
        raise MemoryError("MEMORY_BACKEND_ERROR", f"the memory database failed ({kind})") from exc


def reading(engine: Engine) -> Engine:
    """The same pool for single SELECTs, without a transaction around each."""
    return engine.execution_options(isolation_level="AUTOCOMMIT", **{READS: True})


def parse_url(url: str) -> URL:
    """The URL with this package's driver; INVALID_INPUT names no part of it, since it may hold a password."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise MemoryError.invalid_input("/url", "not a database URL") from None
    backend = parsed.get_backend_name()
    backend = _ALIASES.get(backend, backend)
    if backend not in DRIVERS:
        raise MemoryError.invalid_input("/url", "must be sqlite, postgresql or mysql")
    return parsed.set(drivername=DRIVERS[backend])


def _open_sqlite(url: URL) -> Engine:
    if ":memory:" in (url.database or ":memory:") or url.query.get("mode") == "memory":
        raise MemoryError.invalid_input("/url", "must be a file: one in memory is neither kept nor shared")
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}, hide_parameters=True)
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def _set_up_sqlite(connection: _DriverConnection, _: object) -> None:
    connection.isolation_level = None  # the driver begins no transaction of its own
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_immediate(connection: Connection) -> None:
    """A writer takes its lock first: one that asked later would fail as busy without waiting."""
    if not connection.get_execution_options().get(READS):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
