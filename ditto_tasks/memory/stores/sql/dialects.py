"""What databases differ in: inserting unless present, and text search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

from ditto_tasks.memory.stores.sql.core import (
    ARRAY,
    ColumnElement,
    Executable,
    FromClause,
    Insert,
    String,
    Subquery,
    Table,
    any_,
    bindparam,
    column,
    func,
    insert,
    literal,
    mysql_match,
    postgresql_insert,
    select,
    sqlite_insert,
    table,
    text,
    union_all,
)
from ditto_tasks.memory.stores.sql.tables import Tables

_COMMON_IN_POSTGRESQL: Final = """
    SELECT listed.term
    FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) AS listed (term, frequency)
    WHERE tablename = :name AND attname = 'words' AND listed.term = ANY (:words)
    AND listed.frequency * (SELECT reltuples FROM pg_class WHERE oid = to_regclass(:name)) > :documents
"""


TextRows: TypeAlias = Sequence[Mapping[str, str]]
Parameters: TypeAlias = TextRows | Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A full-text search: where to select from, the condition, the order, and the score (higher is better).

    Without a score hits are scored by their place: a score that is weighed by how many records the whole
    table has, and how long they are, would tell one namespace about the others.
    """

    source: FromClause
    condition: ColumnElement[bool]
    order: tuple[ColumnElement[object], ...]
    score: ColumnElement[float] | None = None


class Dialect(Protocol):
    """The few things that each database says in its own way."""

    def insert_absent(self, target: Table) -> Insert:
        """An INSERT that leaves out rows whose unique key is there already, and counts the others."""
        ...

    def insert_all(self, target: Table, rows: TextRows) -> tuple[Insert, Parameters]:
        """An INSERT of rows of text, of which there are some, and its parameters."""
        ...

    def match(self, tables: Tables, words: Sequence[str], *, every: bool) -> TextMatch:
        """Records that have any of these index words, or every one."""
        ...

    def common(self, tables: Tables, words: Sequence[str]) -> Executable:
        """Those of ``words`` that are in so many documents that ranking all of them would take too long."""
        ...

    def among(self, value: ColumnElement[str], name: str) -> ColumnElement[bool]:
        """Whether ``value`` is one of a list, which is the one bound parameter ``name``."""
        ...

    def list_value(self, values: Sequence[str]) -> object:
        """A list as the parameter of ``among``."""
        ...

    def contains(self, text: ColumnElement[str], needle: str) -> ColumnElement[bool]:
        """Whether ``text`` has ``needle`` in it, every character taken literally."""
        ...

    def without_writes(self, tables: Tables) -> Executable | None:
        """What makes a transaction wait for the writes at work, and later ones for its end."""
        ...

    def as_a_write(self, tables: Tables) -> Executable | None:
        """What a write executes so that the other one waits for it, before it reads tombstones."""
        ...


class Sqlite:
    """FTS5 with bm25, over an index that triggers keep in step."""

    common_documents = 10_000  # about 40 ms of ranking

    def insert_absent(self, target: Table) -> Insert:
        return sqlite_insert(target).on_conflict_do_nothing().execution_options(preserve_rowcount=True)

    def insert_all(self, target: Table, rows: TextRows) -> tuple[Insert, Parameters]:
        return insert(target), rows

    def match(self, tables: Tables, words: Sequence[str], *, every: bool) -> TextMatch:
        name = f"{tables.name}_words"
        index = table(name, column("rowid"), column("rank"), column(name))
        expression = (" AND " if every else " OR ").join(f'"{word}"' for word in words)
        return TextMatch(
            source=index.join(tables.memories, column("seq") == index.c.rowid),
            condition=index.c[name].op("MATCH")(expression),
            order=(index.c.rank,),  # alone, so that FTS5 sorts and the join is made for the best only
        )

    def common(self, tables: Tables, words: Sequence[str]) -> Executable:
        vocabulary = table(f"{tables.name}_vocabulary", column("term", String), column("doc"))
        terms = vocabulary.c.term
        return select(terms).where(terms.in_(words), vocabulary.c.doc > self.common_documents)

    def among(self, value: ColumnElement[str], name: str) -> ColumnElement[bool]:
        listed = func.json_each(bindparam(name, type_=String)).table_valued("value")
        return value.in_(select(listed.c.value))

    def list_value(self, values: Sequence[str]) -> object:
        return json.dumps(values)

    def contains(self, text: ColumnElement[str], needle: str) -> ColumnElement[bool]:
        return func.instr(text, needle) > 0

    def without_writes(self, tables: Tables) -> Executable | None:  # noqa: ARG002 - as the others
        """None: BEGIN IMMEDIATE has one transaction after another."""
        return None

    def as_a_write(self, tables: Tables) -> Executable | None:  # noqa: ARG002 - as the others
        return None


class Postgresql:
    """A GIN index over text search vectors, with ts_rank_cd."""

    common_documents = 3_000  # about 40 ms of ranking

    def insert_absent(self, target: Table) -> Insert:
        return postgresql_insert(target).on_conflict_do_nothing().execution_options(preserve_rowcount=True)

    def insert_all(self, target: Table, rows: TextRows) -> tuple[Insert, Parameters]:
        """One statement with a list a column: a statement a row would cost several times as much."""
        values = {name: [row[name] for row in rows] for name in rows[0]}
        columns = [func.unnest(bindparam(name, type_=ARRAY(String))) for name in values]
        return insert(target).from_select(list(values), select(*columns)), values

    def match(self, tables: Tables, words: Sequence[str], *, every: bool) -> TextMatch:
        query = func.websearch_to_tsquery("simple", (" " if every else " or ").join(words))
        rank = func.ts_rank_cd(tables.memories.c.words, query)
        return TextMatch(
            source=tables.memories,
            condition=tables.memories.c.words.op("@@")(query),
            score=rank,
            order=(rank.desc(), tables.memories.c.id),
        )

    def common(self, tables: Tables, words: Sequence[str]) -> Executable:
        """By the statistics that PostgreSQL keeps of the most common words, so only after its ANALYZE."""
        values = {"name": tables.name, "words": list(words), "documents": self.common_documents}
        return text(_COMMON_IN_POSTGRESQL).bindparams(**values)

    def among(self, value: ColumnElement[str], name: str) -> ColumnElement[bool]:
        return value == any_(bindparam(name, type_=ARRAY(String)))

    def list_value(self, values: Sequence[str]) -> object:
        return list(values)

    def contains(self, text: ColumnElement[str], needle: str) -> ColumnElement[bool]:
        return func.strpos(text, needle) > 0

    def without_writes(self, tables: Tables) -> Executable | None:
        """A write that has read tombstones keeps a lock on their table until it ends."""
        return text(f"LOCK TABLE {tables.tombstones.name} IN ACCESS EXCLUSIVE MODE")

    def as_a_write(self, tables: Tables) -> Executable | None:  # noqa: ARG002 - as the others
        return None


class Mysql:
    """A FULLTEXT index over the same words, with MATCH ... AGAINST; MySQL and MariaDB."""

    common_documents = 1_000  # about 40 ms of ranking

    def insert_absent(self, target: Table) -> Insert:
        # IGNORE would also shorten values that are too long: what is written is checked before
        return insert(target).prefix_with("IGNORE").execution_options(preserve_rowcount=True)

    def insert_all(self, target: Table, rows: TextRows) -> tuple[Insert, Parameters]:
        return insert(target), rows

    def match(self, tables: Tables, words: Sequence[str], *, every: bool) -> TextMatch:
        expression = " ".join(f"+{word}" if every else word for word in words)
        score = mysql_match(tables.memories.c.words, against=expression).in_boolean_mode()
        return TextMatch(
            source=tables.memories,
            condition=score,
            order=(score.desc(), tables.memories.c.id),
        )

    def common(self, tables: Tables, words: Sequence[str]) -> Executable:
        """By looking whether there are so many records: finding them takes a fraction of ranking them.

        Statistics of the index are for administrators only.
        """
        return union_all(*(select(self._found_often(tables, word).c.term) for word in words))

    def _found_often(self, tables: Tables, word: str) -> Subquery:
        has_word = mysql_match(tables.memories.c.words, against=word).in_boolean_mode()
        found = select(literal(word).label("term")).select_from(tables.memories).where(has_word)
        return found.limit(1).offset(self.common_documents).subquery()

    def among(self, value: ColumnElement[str], name: str) -> ColumnElement[bool]:
        return value.in_(bindparam(name, expanding=True, type_=String))

    def list_value(self, values: Sequence[str]) -> object:
        return list(values)

    def contains(self, text: ColumnElement[str], needle: str) -> ColumnElement[bool]:
        return func.instr(text, needle) > 0

    def without_writes(self, tables: Tables) -> Executable | None:
        """By the one row that is always there: InnoDB has no locks on a whole table in a transaction."""
        return select(tables.schema.c.version).with_for_update()

    def as_a_write(self, tables: Tables) -> Executable | None:
        return select(tables.schema.c.version).with_for_update(read=True)


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {"sqlite": Sqlite(), "postgresql": Postgresql(), "mysql": Mysql()}
)
