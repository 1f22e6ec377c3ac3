"""Opening MEMORY from settings and what extensions gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ditto_tasks.errors import SettingsError
from ditto_tasks.memory.base import MemorySearchProvider, MemoryStore
from ditto_tasks.memory.nodes import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.memory.stores.sql.tables import DEFAULT_TABLE

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ditto_tasks.settings import Settings

URL: Final = "DITTO_WORKER_MEMORY_URL"
POSTGRES_URL: Final = "DITTO_WORKER_MEMORY_POSTGRES_URL"
QDRANT_URL: Final = "DITTO_WORKER_MEMORY_QDRANT_URL"


def open_memory(settings: Settings, services: Mapping[str, object]) -> MemoryNodes:
    """The MEMORY nodes; the services ``store`` and ``search`` take the place of configured ones."""
    store = services.get("store")
    if store is None:
        store = open_store(settings)
    if not isinstance(store, MemoryStore):
        raise TypeError("the service 'store' is not a MemoryStore")
    search = services.get("search")
    if search is not None and not isinstance(search, MemorySearchProvider):
        raise TypeError("the service 'search' is not a MemorySearchProvider")
    limits = settings.memory
    return MemoryNodes(
        store,
        search=search,
        query_limit=limits.query_limit,
        search_limit=limits.search_limit,
        concurrency=limits.concurrency,
    )


def open_store(settings: Settings) -> SqlMemoryStore:
    """The store that the environment names, by one URL or by the variables of one kind."""
    url, table = _configured(settings)
    scheme = url.split(":", 1)[0].split("+", 1)[0]
    if scheme in ("sqlite", "postgres", "postgresql", "mysql", "mariadb"):
        return SqlMemoryStore(url, table=table)
    raise _refused(URL, "must be a sqlite, postgresql, mysql or qdrant URL")


def memory_is_configured(settings: Settings) -> bool:
    """Whether the environment names a memory."""
    return bool(_named(settings))


def _configured(settings: Settings) -> tuple[str, str]:
    named = _named(settings)
    if len(named) > 1:
        raise _refused(sorted(named)[0], f"also {sorted(named)[1]} is set; exactly one says where memory is")
    if not named:
        raise _refused(URL, "is not set, so there is no memory; for example sqlite:///memory.db")
    return next(
        iter(named.values())
    ).get_secret_value(), settings.connections.memory_postgres_table or DEFAULT_TABLE


def _named(settings: Settings) -> dict[str, SecretStr]:
    """Each variable that says where memory is, if it is set."""
    found = settings.connections
    given = {
        URL: found.memory_url,
        POSTGRES_URL: found.memory_postgres_url,
        QDRANT_URL: found.memory_qdrant_url,
    }
    return {name: value for name, value in given.items() if value is not None}


def _refused(variable: str, reason: str) -> SettingsError:
    return SettingsError("INVALID_SETTINGS", f"{variable}: {reason}", {"path": variable})
