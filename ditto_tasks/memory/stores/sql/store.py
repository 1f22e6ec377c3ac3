"""The SQL memory store: records, their filters, their search words and the log of writes in one database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Self

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.memory.cursors import query_digest, read_cursor, write_cursor
from ditto_tasks.memory.erasure import Subject
from ditto_tasks.memory.filters import parse_filter
from ditto_tasks.memory.models import (
    MemoryDraft,
    MemoryItem,
    MemoryPatch,
    MemorySearchResult,
    Query,
    QueryPage,
    Search,
    WriteOperation,
)
from ditto_tasks.memory.records import check_namespace, is_storable
from ditto_tasks.memory.segmentation import fold, spelled_query
from ditto_tasks.memory.stores.sql import erasing, schema, statements, writing
from ditto_tasks.memory.stores.sql.core import ColumnElement, Connection, Executable, Select, false
from ditto_tasks.memory.stores.sql.dialects import DIALECTS
from ditto_tasks.memory.stores.sql.engine import open_engine, reading, translated_errors
from ditto_tasks.memory.stores.sql.frequent_words import FrequentWords
from ditto_tasks.memory.stores.sql.rows import Record, read_item
from ditto_tasks.memory.stores.sql.tables import DEFAULT_TABLE, Tables
from ditto_tasks.memory.stores.sql.vectors import (
    Embedding,
    create_vectors,
    put_vectors,
    require_vectors,
    vector_text,
)
from ditto_tasks.retrieval.base import Vector


class SqlMemoryStore:
    """A `MemoryStore` and `MemorySearchProvider` over one database; ``within`` gives views of one namespace.

    Nothing is connected before the first call. A SQLite file then gets its schema; a server's is made by
    ``ditto memory init``. With an ``embedding`` texts have vectors and there is the strategy vector.
    """

    def __init__(
        self,
        url: str,
        *,
        table: str = DEFAULT_TABLE,
        embedding: Embedding | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self._engine = open_engine(url)
        if embedding is not None and self._engine.dialect.name != "postgresql":
            raise MemoryError.invalid_input("/embedding", "vectors need PostgreSQL or Qdrant")
        self._embedding = embedding
        self._tables = Tables.named(table, backend=self._engine.dialect.name)
        self._reads = reading(self._engine)
        self._dialect = DIALECTS[self._engine.dialect.name]
        self._by_id = statements.named_records(self._tables, self._dialect, "id")
        self._by_key = statements.named_records(self._tables, self._dialect, "memory_key")
        self._clock_ms = clock_ms or _system_clock_ms
        self._namespace = ""
        self._frequent = FrequentWords()
        self._schema_checked = Event()

    def within(self, namespace: str) -> Self:
        """The same database, confined to ``namespace``."""
        check_namespace(namespace)
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__, _namespace=namespace)
        return view

    def migrate(self) -> tuple[int, int]:
        """Create or update the schema; (version before, version now)."""
        with translated_errors():
            versions = schema.migrate(self._engine, self._tables)
            if self._embedding is not None:
                with self._engine.begin() as connection:
                    create_vectors(connection, self._tables, self._embedding)
        return versions

    def ping(self) -> None:
        """Raise unless the database answers and its schema is current."""
        with translated_errors():
            schema.require_current(self._engine, self._tables)
            if self._embedding is not None:
                with self._engine.connect() as connection:
                    require_vectors(connection, self._tables, self._embedding)

    def close(self) -> None:
        """Close all connections; views share them."""
        self._engine.dispose()

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> list[MemoryItem]:
        by_id = {item.id: item for item in self._named(self._by_id, ids)}
        by_key = {item.key: item for item in self._named(self._by_key, keys)}
        named = [by_id.get(record_id) for record_id in ids] + [by_key.get(key) for key in keys]
        return list({item.id: item for item in named if item is not None}.values())

    def query(self, query: Query) -> QueryPage:
        namespace, condition = self._condition(query.filter)
        order = statements.ordering(self._tables, query.order_by)
        digest = query_digest(query, namespace)
        if query.cursor is not None:
            condition &= statements.after(order, read_cursor(query.cursor, digest, size=len(order)))
        statement = (
            statements.records(self._tables)
            .add_columns(*(column for column, _ in order))
            .where(condition)
            .order_by(*(column.desc() if descending else column for column, descending in order))
            .limit(query.limit + 1)
        )
        rows = self._read(statement)
        page = rows[: query.limit]
        cursor = write_cursor(page[-1][4:], digest) if len(rows) > len(page) else None
        return QueryPage.assemble({"items": tuple(map(read_item, page)), "next_cursor": cursor})

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies of SEARCH, the default one first."""
        return ("keyword", "substring") if self._embedding is None else ("keyword", "substring", "vector")

    def search(self, search: Search) -> list[MemorySearchResult]:
        strategy = search.strategy or "keyword"
        if strategy not in self.strategies:
            raise MemoryError(
                "UNSUPPORTED_STRATEGY", f"strategy: must be one of {', '.join(self.strategies)}"
            )
        if strategy == "vector" and self._embedding is not None and not search.options:
            return self._by_vector(self._embedding, search)
        if not isinstance(search.query, str):
            raise MemoryError.invalid_input("/query", f"the strategy {strategy} takes text")
        if search.options:
            raise MemoryError.invalid_input("/options", f"the strategy {strategy} has no options")
        find = self._by_keyword if strategy == "keyword" else self._by_substring
        return find(search.query, search)

    def write(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation | None = None
    ) -> list[MemoryItem]:
        vectors = self._embed({str(index): draft.content for index, draft in enumerate(drafts)})
        with self._transaction() as connection:
            items = self._batch().write(connection, drafts, operation)
            self._put_vectors(connection, {item.id: vectors.get(str(n)) for n, item in enumerate(items)})
        return items

    def recall(self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation) -> list[MemoryItem] | None:
        self._check_schema()
        with translated_errors(), self._reads.connect() as connection:
            return self._batch().recall(connection, drafts, operation)

    def update(self, patches: Sequence[MemoryPatch]) -> list[MemoryItem]:
        changed = {patch.id: patch.content for patch in patches if patch.replaces_content}
        vectors = self._embed(changed)
        with self._transaction() as connection:
            items = self._batch().update(connection, patches)
            self._put_vectors(connection, {record_id: vectors.get(record_id) for record_id in changed})
        return items

    def delete(self, ids: Sequence[str]) -> list[str]:
        with self._transaction() as connection:
            return self._batch().delete(connection, ids)

    def erase(self, subject: Subject) -> None:
        """Remove all memories of a session or tenant, whatever this view's namespace."""
        with self._transaction() as connection:
            erasing.erase(connection, self._tables, self._dialect, subject, now_ms=self._clock_ms())

    def remaining(self, subject: Subject) -> dict[str, int]:
        """What of a session or tenant is there now, by kind."""
        self._check_schema()
        with translated_errors(), self._reads.connect() as connection:
            return erasing.remaining(connection, self._tables, subject)

    def _batch(self) -> writing.Batch:
        return writing.Batch(self._tables, self._dialect, self._namespace, self._clock_ms())

    def _read(self, statement: Executable, values: Mapping[str, object] | None = None) -> Sequence[Record]:
        self._check_schema()
        with translated_errors(), self._reads.connect() as connection:
            return connection.execute(statement, values).all()

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self._check_schema()
        with translated_errors(), self._engine.begin() as connection:
            yield connection

    def _check_schema(self) -> None:
        """Once a process; two threads that do it at the same time do no harm."""
        if self._schema_checked.is_set():
            return
        if self._engine.dialect.name == "sqlite":
            self.migrate()
        else:
            self.ping()
        self._schema_checked.set()

    def _named(self, statement: Select[statements.Record], names: Sequence[str]) -> Iterator[MemoryItem]:
        known = self._dialect.list_value([name for name in names if is_storable(name)])
        values = {"namespace": self._namespace, "names": known}
        return map(read_item, self._read(statement, values)) if names else iter(())

    def _condition(self, wire: JsonObject | None) -> tuple[str, ColumnElement[bool]]:
        """The one namespace that a call runs in, and the condition that records of it must pass."""
        wanted = parse_filter(wire)
        namespace = self._namespace if wanted.namespace is None else wanted.namespace
        escapes = bool(self._namespace) and namespace != self._namespace
        if escapes or not is_storable(namespace):
            return self._namespace, false()
        return namespace, statements.passes(self._tables, namespace, wanted)

    def _by_keyword(self, query: str, search: Search) -> list[MemorySearchResult]:
        namespace, condition = self._condition(search.filter)
        words = spelled_query(query, namespace)
        if not words:
            return []
        common = self._frequent.among(words, self._look_for_frequent)
        telling = [word for word in words if word not in common]
        if telling:
            return self._matching(telling, condition, search.limit)
        # only very common words: records with all of them are the best ones and far fewer
        every = self._matching(words, condition, search.limit, every=True)
        return every or self._matching(words, condition, search.limit)

    def _look_for_frequent(self, words: Sequence[str]) -> set[str]:
        return {row[0] for row in self._read(self._dialect.common(self._tables, words))}

    def _matching(
        self, words: Sequence[str], condition: ColumnElement[bool], limit: int, *, every: bool = False
    ) -> list[MemorySearchResult]:
        match = self._dialect.match(self._tables, words, every=every)
        statement = (
            statements.records(self._tables)
            .add_columns(*([] if match.score is None else [match.score]))
            .select_from(match.source)
            .where(match.condition, condition)
            .order_by(*match.order)
            .limit(limit)
        )
        return [
            MemorySearchResult.assemble(
                {"memory": read_item(row), "score": 1 / place if match.score is None else float(row[4])}
            )
            for place, row in enumerate(self._read(statement), start=1)
        ]

    def _by_vector(self, embedding: Embedding, search: Search) -> list[MemorySearchResult]:
        _, condition = self._condition(search.filter)
        statement = statements.nearest(self._tables, vector_text(embedding.query(search.query)), condition)
        return [
            MemorySearchResult.assemble({"memory": read_item(row), "score": float(row[4])})
            for row in self._read(statement.limit(search.limit))
        ]

    def _embed(self, contents: Mapping[str, JsonValue]) -> Mapping[str, Vector]:
        """Before a transaction begins: it must not wait for another service."""
        return {} if self._embedding is None else self._embedding.embed(contents)

    def _put_vectors(self, connection: Connection, vectors: Mapping[str, Vector | None]) -> None:
        if self._embedding is not None:
            found = {record_id: vector for record_id, vector in vectors.items() if vector is not None}
            put_vectors(connection, self._tables, list(vectors), found)

    def _by_substring(self, query: str, search: Search) -> list[MemorySearchResult]:
        needle = fold(query).strip()
        if not needle:
            return []
        _, condition = self._condition(search.filter)
        memories = self._tables.memories.c
        statement = (
            statements.records(self._tables)
            .where(condition, self._dialect.contains(memories.folded, needle))
            .order_by(memories.id)
            .limit(search.limit)
        )
        rows = self._read(statement)
        return [MemorySearchResult.assemble({"memory": read_item(row)}) for row in rows]


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
