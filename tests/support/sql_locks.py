"""Connections beside a memory store's, which hold locks that its transactions wait for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Executable, insert, text
from sqlalchemy.exc import OperationalError

from ditto_tasks.memory.models import MemoryItem
from ditto_tasks.memory.stores.sql.engine import open_engine
from ditto_tasks.memory.stores.sql.rows import new_row
from ditto_tasks.memory.stores.sql.tables import Tables
from support.memories import Backend

WAITS = {
    "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
    # the server renews this table once nobody has read it for 100 ms
    "mariadb": "SELECT count(*) FROM (SELECT sleep(0.15)) AS paused, information_schema.innodb_trx"
    " WHERE trx_state = 'LOCK WAIT'",
}


def tables_of(backend: Backend) -> Tables:
    """The tables of a store."""
    return Tables.named(backend.table, backend=backend.dialect)


def keyed_record(backend: Backend, record_id: str, key: str) -> Executable:
    """An INSERT of a record under a key of the default namespace."""
    item = MemoryItem(id=record_id, key=key, content=1)
    return insert(tables_of(backend).memories).values(new_row(item, namespace="", now_ms=1))


@contextmanager
def connected(backend: Backend) -> Iterator[Connection]:
    """A connection of its own; what it did is rolled back at the end."""
    engine = open_engine(backend.url)
    with engine.connect() as connection:
        yield connection
        connection.rollback()
    engine.dispose()


@contextmanager
def holding(backend: Backend, statement: Executable) -> Iterator[None]:
    """As long as a connection has executed a statement and committed nothing."""
    with connected(backend) as connection:
        connection.execute(statement)
        yield


def learn(backend: Backend) -> None:
    """Let PostgreSQL count the records, so that its planner knows how few they are."""
    if backend.kind == "postgresql":
        with connected(backend) as connection:
            connection.execute(text(f"ANALYZE {backend.table}"))
            connection.commit()


def waiting(backend: Backend, how_many: int) -> Callable[[], bool]:
    """Whether so many transactions wait for a lock."""

    def asked() -> bool:
        with connected(backend) as connection:
            return int(connection.scalar(text(WAITS[backend.kind])) or 0) >= how_many

    return asked


def is_free(backend: Backend, statement: Executable) -> bool:
    """Whether a statement gets its locks at once; they are not kept."""
    with connected(backend) as connection:
        if backend.kind == "postgresql":
            connection.execute(text("SET LOCAL lock_timeout = '300ms'"))
        else:
            connection.execute(text("SET innodb_lock_wait_timeout = 1"))
        try:
            connection.execute(statement)
        except OperationalError:
            return False
        return True
