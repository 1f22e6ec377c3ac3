"""Erasure of a session's or a tenant's memories, with a tombstone against late writes."""

from collections.abc import Sequence

from ditto_tasks.memory.erasure import TOMBSTONE_KEEP_MS, Subject, erased
from ditto_tasks.memory.stores.sql.core import (
    ColumnElement,
    Connection,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
)
from ditto_tasks.memory.stores.sql.dialects import Dialect
from ditto_tasks.memory.stores.sql.tables import Tables


def erase(connection: Connection, tables: Tables, dialect: Dialect, subject: Subject, *, now_ms: int) -> None:
    """Remove records, their index entries and their operations, and note the erasure.

    It waits for the writes that are at work, and those that come wait for it: a write that saw no tombstone
    has been committed when its records are deleted here.
    """
    tombstones = tables.tombstones
    alone = dialect.without_writes(tables)
    if alone is not None:
        connection.execute(alone)
    connection.execute(delete(tombstones).where(tombstones.c.name == subject.tombstone))
    connection.execute(insert(tombstones).values(name=subject.tombstone, erased_at=now_ms))
    connection.execute(delete(tables.memories).where(_theirs(tables.memories, subject)))
    connection.execute(delete(tables.operations).where(_in_namespaces(tables.operations, subject)))


def remaining(connection: Connection, tables: Tables, subject: Subject) -> dict[str, int]:
    """How many rows of each table are the subject's now."""
    conditions = {
        "memories": (tables.memories, _theirs(tables.memories, subject)),
        "metadata entries": (tables.facets, _in_namespaces(tables.facets, subject)),
        "memory operations": (tables.operations, _in_namespaces(tables.operations, subject)),
    }
    return {
        name: connection.scalar(select(func.count()).select_from(table).where(condition)) or 0
        for name, (table, condition) in conditions.items()
    }


def refuse_erased(
    connection: Connection, tables: Tables, dialect: Dialect, names: Sequence[str], *, now_ms: int
) -> None:
    """Raise ERASED if one of these tombstones stands; none is set until the transaction ends."""
    if not names:
        return
    announced = dialect.as_a_write(tables)
    if announced is not None:
        connection.execute(announced)
    tombstones = tables.tombstones.c
    standing = select(tombstones.name).where(
        dialect.among(tombstones.name, "names"), tombstones.erased_at > now_ms - TOMBSTONE_KEEP_MS
    )
    if connection.execute(standing.limit(1), {"names": dialect.list_value(names)}).first() is not None:
        raise erased()


def _theirs(memories: Table, subject: Subject) -> ColumnElement[bool]:
    return or_(_in_namespaces(memories, subject), _begins(memories.c.memory_key, subject.key_prefix))


def _in_namespaces(table: Table, subject: Subject) -> ColumnElement[bool]:
    own = table.c.namespace == subject.name
    if subject.namespace_prefix is None:
        return own
    return or_(own, _begins(table.c.namespace, subject.namespace_prefix))


def _begins(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Literally and by case, which LIKE is not everywhere."""
    return func.substr(column, 1, len(prefix)) == prefix
