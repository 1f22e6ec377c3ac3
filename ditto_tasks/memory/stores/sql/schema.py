"""Versioned schema: numbered SQL files a dialect, applied in order inside one transaction."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.stores.sql.core import Connection, Engine, func, insert, inspect, select
from ditto_tasks.memory.stores.sql.tables import Tables

_FILE: Final = re.compile(r"(?P<dialect>[a-z]+)_(?P<version>\d{4})\.sql")
_LOCK_TIMEOUT_S: Final = 60
_LOCK: Final = 0x4D454D  # "MEM": one migration at a time on a PostgreSQL server


def latest_version(dialect: str) -> int:
    """The schema version that this package works with."""
    return max(_migrations(dialect))


def current_version(connection: Connection, tables: Tables) -> int:
    """The schema version of a database; 0 before the first migration."""
    if not inspect(connection).has_table(tables.schema.name):
        return 0
    return connection.scalar(select(func.max(tables.schema.c.version))) or 0


def migrate(engine: Engine, tables: Tables) -> tuple[int, int]:
    """Bring a database to the latest version, safely by several at once; (version before, version now)."""
    dialect = engine.dialect.name
    with engine.begin() as connection:
        _lock(connection)
        before = current_version(connection, tables)
        _refuse_newer(before, latest_version(dialect))
        if before == 0:
            connection.exec_driver_sql(f"CREATE TABLE {tables.schema.name} (version BIGINT PRIMARY KEY)")
        for version in range(before + 1, latest_version(dialect) + 1):
            _apply(connection, tables, version)
    return before, latest_version(dialect)


def _lock(connection: Connection) -> None:
    """One migration at a time on a server; SQLite's transaction is a lock already."""
    match connection.dialect.name:
        case "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
        case "mysql":  # kept until the connection is reset on its return to the pool
            connection.execute(select(func.get_lock(f"ditto {_LOCK}", _LOCK_TIMEOUT_S)))


def require_current(engine: Engine, tables: Tables) -> None:
    """Raise SCHEMA_OUTDATED unless ``ditto memory init`` has been run by this version."""
    with engine.connect() as connection:
        version = current_version(connection, tables)
    latest = latest_version(engine.dialect.name)
    _refuse_newer(version, latest)
    if version < latest:
        reason = f"the memory schema has version {version}, {latest} is needed: run `ditto memory init`"
        raise MemoryError("SCHEMA_OUTDATED", reason)


def _refuse_newer(version: int, latest: int) -> None:
    if version > latest:
        reason = f"the memory schema has version {version}, newer than {latest}: update this package"
        raise MemoryError("SCHEMA_OUTDATED", reason)


def _apply(connection: Connection, tables: Tables, version: int) -> None:
    script = _migrations(connection.dialect.name)[version]
    script = script.replace("{table}", tables.name).replace("{collation}", _collation(connection))
    for statement in _statements(script):
        connection.exec_driver_sql(statement)
    connection.execute(insert(tables.schema).values(version=version))


def _collation(connection: Connection) -> str:
    """A collation by code point that does not pad; the two families name it differently."""
    return "utf8mb4_nopad_bin" if getattr(connection.dialect, "is_mariadb", False) else "utf8mb4_0900_bin"


@cache
def _migrations(dialect: str) -> dict[int, str]:
    found = {}
    for entry in resources.files(__package__).joinpath("migrations").iterdir():
        match = _FILE.fullmatch(entry.name)
        if match and match["dialect"] == dialect:
            found[int(match["version"])] = entry.read_text(encoding="utf-8")
    return found


def _statements(script: str) -> list[str]:
    """The statements of a script; each ends with a semicolon in the first column's paragraph."""
    code = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    return [part.strip() for part in re.split(r";\n(?=CREATE|\n|\Z)", code) if part.strip()]
