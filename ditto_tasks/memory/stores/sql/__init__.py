"""One memory store for SQLite, PostgreSQL and MySQL, on SQLAlchemy Core."""

from __future__ import annotations

from ditto_tasks.memory.stores.sql.store import SqlMemoryStore

__all__ = ["SqlMemoryStore"]
