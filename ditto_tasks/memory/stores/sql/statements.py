"""SELECTs over records, the same on every database but for what `Dialect` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.cursors import Position
from ditto_tasks.memory.filters import Bound, MemoryFilter
from ditto_tasks.memory.models import OrderBy
from ditto_tasks.memory.records import is_storable
from ditto_tasks.memory.stores.sql.core import (
    ColumnElement,
    Select,
    String,
    and_,
    bindparam,
    cast,
    column,
    false,
    func,
    or_,
    select,
    table,
)
from ditto_tasks.memory.stores.sql.dialects import Dialect
from ditto_tasks.memory.stores.sql.tables import Tables, VectorType

FURTHEST: Final = 2.0  # the cosine distance of opposite vectors, with room for rounding below
Record = tuple[str, str | None, str, str | None]  # id, memory_key, content, metadata
_COMPARE: Final[Mapping[str, Callable[[ColumnElement[str], str], ColumnElement[bool]]]] = {
    "eq": lambda value, other: value == other,
    "gt": lambda value, other: value > other,
    "gte": lambda value, other: value >= other,
    "lt": lambda value, other: value < other,
    "lte": lambda value, other: value <= other,
}
_SORTABLE: Final[Mapping[str, str]] = {
    "id": "id",
    "key": "memory_key",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
}


def records(tables: Tables) -> Select[Record]:
    """Records, their JSON as text (PostgreSQL's driver would read it with a codec of its own)."""
    memories = tables.memories.c
    return select(
        memories.id, memories.memory_key, cast(memories.content, String), cast(memories.metadata, String)
    )


def named_records(tables: Tables, dialect: Dialect, column: str) -> Select[Record]:
    """Records of one namespace whose ``column`` is among the parameter ``names``, in the order of ids."""
    memories = tables.memories.c
    own = memories.namespace == bindparam("namespace")
    return records(tables).where(own, dialect.among(memories[column], "names")).order_by(memories.id)


def nearest(tables: Tables, vector: str, condition: ColumnElement[bool]) -> Select[*tuple[object, ...]]:
    """Records and their cosine to a vector, nearest first; a null vector is near to nothing."""
    vectors = table(f"{tables.name}_vectors", column("memory_id", String), column("embedding"))
    asked = cast(bindparam("vector", vector, type_=String), VectorType)
    distance = vectors.c.embedding.op("<=>")(asked)
    score = (1 - distance).label("score")
    return (
        records(tables)
        .add_columns(score)
        .join(vectors, vectors.c.memory_id == tables.memories.c.id)
        .where(condition, distance <= FURTHEST)  # the distance from a null vector is NaN, above every number
        .order_by(distance, tables.memories.c.id)
    )


def passes(tables: Tables, namespace: str, wanted: MemoryFilter) -> ColumnElement[bool]:
    """The condition that a record is in ``namespace`` and passes the filter."""
    memories = tables.memories.c
    conditions = [memories.namespace == namespace]
    if wanted.key is not None:
        conditions.append(memories.memory_key == wanted.key if is_storable(wanted.key) else false())
    conditions.extend(_has_facet(tables, namespace, bound) for bound in wanted.bounds)
    return and_(*conditions)


def ordering(tables: Tables, order_by: Sequence[OrderBy]) -> list[tuple[ColumnElement[object], bool]]:
    """(column, descending) of a total order; records without a key sort as if it were empty."""
    terms = [(_sortable(tables, term.field), term.direction == "desc") for term in order_by]
    if not any(term.field == "id" for term in order_by):
        terms.append((_sortable(tables, "id"), False))
    return terms


def after(order: Sequence[tuple[ColumnElement[object], bool]], position: Position) -> ColumnElement[bool]:
    """The condition that a record comes after ``position`` in ``order``."""
    alternatives = []
    for index, (value_of, descending) in enumerate(order):
        same = [earlier == value for (earlier, _), value in zip(order[:index], position, strict=False)]
        beyond = value_of < position[index] if descending else value_of > position[index]
        alternatives.append(and_(*same, beyond))
    return or_(*alternatives)


def _has_facet(tables: Tables, namespace: str, bound: Bound) -> ColumnElement[bool]:
    facets = tables.facets.c
    conditions = [
        facets.namespace == namespace,
        facets.path == bound.path,
        _COMPARE[bound.operator](facets.value, bound.value),
    ]
    if bound.operator in ("gt", "gte"):
        conditions.append(facets.value < chr(ord(bound.value[0]) + 1))  # stays within the type of the bound
    elif bound.operator in ("lt", "lte"):
        conditions.append(facets.value >= bound.value[0])
    return tables.memories.c.id.in_(select(facets.memory_id).where(*conditions))


def _sortable(tables: Tables, field: str) -> ColumnElement[object]:
    if field not in _SORTABLE:
        raise MemoryError("UNSUPPORTED_FILTER", f"orderBy: the fields are {', '.join(_SORTABLE)}")
    column = tables.memories.c[_SORTABLE[field]]
    return func.coalesce(column, "") if field == "key" else column
