"""The part of SQLAlchemy Core that this store is made of; nothing else imports SQLAlchemy."""

from __future__ import annotations

from sqlalchemy import (
    URL,
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Insert,
    MetaData,
    Select,
    String,
    Table,
    and_,
    bindparam,
    case,
    cast,
    column,
    create_engine,
    delete,
    event,
    false,
    func,
    insert,
    inspect,
    or_,
    select,
    table,
    update,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.sql.expression import FromClause
from sqlalchemy.types import UserDefinedType

__all__ = [
    "URL",
    "ArgumentError",
    "BigInteger",
    "BindParameter",
    "Column",
    "ColumnElement",
    "Connection",
    "Engine",
    "FromClause",
    "Insert",
    "MetaData",
    "SQLAlchemyError",
    "Select",
    "String",
    "Table",
    "UserDefinedType",
    "and_",
    "bindparam",
    "case",
    "cast",
    "column",
    "create_engine",
    "delete",
    "event",
    "false",
    "func",
    "insert",
    "inspect",
    "make_url",
    "or_",
    "postgresql_insert",
    "select",
    "sqlite_insert",
    "table",
    "update",
]
