"""Vectors beside the records, by PostgreSQL's extension `vector`.

They are compared exactly, without an approximate index: such an index would be searched before the namespace
and the filter apply, and could then find less than there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ditto_tasks.canonical import canonical_json
from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory.embedding import PREPROCESSING, query_vector, vectors_of
from ditto_tasks.memory.stores.sql.core import Connection, text
from ditto_tasks.memory.stores.sql.tables import Tables
from ditto_tasks.retrieval.base import EmbeddingProvider, Vector

_CREATE: Final = """
    CREATE TABLE {table}_vectors (
        memory_id TEXT COLLATE "C" PRIMARY KEY REFERENCES {table} (id) ON DELETE CASCADE,
        embedding vector({dimensions}) NOT NULL
    )
"""
_PUT: Final = """
    INSERT INTO {table}_vectors (memory_id, embedding)
    SELECT id, CAST(:embedding AS vector) FROM {table} WHERE id = :id
    ON CONFLICT (memory_id) DO UPDATE SET embedding = excluded.embedding
"""
_DROP: Final = "DELETE FROM {table}_vectors WHERE memory_id = ANY (:ids)"


@dataclass(frozen=True, slots=True)
class Embedding:
    """What makes the vectors; model and dimensions are recorded with them."""

    provider: EmbeddingProvider
    dimensions: int
    model: str = ""

    @property
    def mark(self) -> str:
        """What the table of vectors is marked with."""
        return canonical_json(
            {"model": self.model, "dimensions": self.dimensions, "preprocessing": PREPROCESSING}
        )

    def embed(self, contents: Mapping[str, JsonValue]) -> dict[str, Vector]:
        """The vectors of those contents that have a text, by the names given."""
        return vectors_of(self.provider, contents, self.dimensions)

    def query(self, query: JsonValue) -> Vector:
        """A query's vector: numbers are taken as they are, text is embedded."""
        return query_vector(self.provider, query, self.dimensions)


def create_vectors(connection: Connection, tables: Tables, embedding: Embedding) -> None:
    """Create the table of vectors unless it is there for the same embedding."""
    if _mark(connection, tables) is None:
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
        statement = _CREATE.format(table=tables.name, dimensions=int(embedding.dimensions))
        connection.exec_driver_sql(statement)
        quoted = embedding.mark.replace("'", "''")
        connection.execute(text(f"COMMENT ON TABLE {tables.name}_vectors IS '{quoted}'".replace(":", r"\:")))
    require_vectors(connection, tables, embedding)


def require_vectors(connection: Connection, tables: Tables, embedding: Embedding) -> None:
    """Raise EMBEDDING_MISMATCH unless the vectors there are of the same embedding."""
    if _mark(connection, tables) != embedding.mark:
        raise MemoryError("EMBEDDING_MISMATCH", "the table of vectors is missing or of another embedding")


def put_vectors(
    connection: Connection, tables: Tables, ids: Sequence[str], vectors: Mapping[str, Vector]
) -> None:
    """Replace the vectors of these records; one that has none now loses the one it had."""
    gone = [record_id for record_id in ids if record_id not in vectors]
    if gone:
        connection.execute(text(_DROP.format(table=tables.name)), {"ids": gone})
    if vectors:
        rows = [{"id": record_id, "embedding": vector_text(vector)} for record_id, vector in vectors.items()]
        connection.execute(text(_PUT.format(table=tables.name)), rows)


def vector_text(vector: Vector) -> str:
    """A vector as the extension reads it."""
    return f"[{','.join(repr(float(number)) for number in vector)}]"


def _mark(connection: Connection, tables: Tables) -> str | None:
    found = text("SELECT obj_description(to_regclass(:name), 'pg_class')")
    mark: str | None = connection.scalar(found, {"name": f"{tables.name}_vectors"})
    return mark
