"""The tables as statements see them; the migrations create them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.stores.sql.core import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    MetaData,
    String,
    Table,
    UserDefinedType,
    func,
)

DEFAULT_TABLE: Final = "memories"
_TABLE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")  # with a suffix it fits every database


class JsonText(UserDefinedType[str]):
    """A JSON column read and written as text: this package's own codec keeps every value exactly."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"


class VectorType(UserDefinedType[str]):
    """The type of the extension `vector`."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "vector"


class TextVector(UserDefinedType[str]):
    """PostgreSQL's index form of a document, made of its spelled words."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "TSVECTOR"

    def bind_expression(self, bindvalue: BindParameter[str]) -> ColumnElement[str]:
        return func.to_tsvector("simple", bindvalue)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one store, which all begin with the name of the first."""

    memories: Table
    facets: Table
    operations: Table
    schema: Table
    tombstones: Table

    @property
    def name(self) -> str:
        return self.memories.name

    @classmethod
    def named(cls, name: str, *, backend: str) -> Self:
        """The tables of the store called ``name``; INVALID_INPUT unless it is a plain lower-case name."""
        if not _TABLE_NAME.fullmatch(name):
            raise MemoryError.invalid_input("/table", "must be lower-case letters, digits and _, at most 40")
        known = MetaData()
        words = TextVector() if backend == "postgresql" else String()
        schema = Table(f"{name}_schema", known, Column("version", BigInteger, primary_key=True))
        return cls(
            memories=_memories(name, known, words),
            facets=_facets(name, known),
            operations=_operations(name, known),
            schema=schema,
            tombstones=_tombstones(name, known),
        )


def _memories(name: str, known: MetaData, words: TextVector | String) -> Table:
    return Table(
        name,
        known,
        Column("id", String, primary_key=True),
        Column("namespace", String),
        Column("memory_key", String),
        Column("content", JsonText),
        Column("metadata", JsonText),
        Column("created_at", BigInteger),
        Column("updated_at", BigInteger),
        Column("folded", String),
        Column("words", words),
    )


def _facets(name: str, known: MetaData) -> Table:
    return Table(
        f"{name}_facets",
        known,
        Column("namespace", String, primary_key=True),
        Column("path", String, primary_key=True),
        Column("value", String, primary_key=True),
        Column("memory_id", String, primary_key=True),
    )


def _operations(name: str, known: MetaData) -> Table:
    return Table(
        f"{name}_operations",
        known,
        Column("namespace", String, primary_key=True),
        Column("operation_id", String, primary_key=True),
        Column("input_hash", String),
        Column("ids", String),
        Column("created_at", BigInteger),
    )


def _tombstones(name: str, known: MetaData) -> Table:
    return Table(
        f"{name}_tombstones",
        known,
        Column("name", String, primary_key=True),
        Column("erased_at", BigInteger),
    )
