"""Opening MEMORY from settings and what extensions gave."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ditto_tasks.errors import MemoryError, SettingsError
from ditto_tasks.memory.base import MemorySearchProvider, MemoryStore
from ditto_tasks.memory.nodes import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.memory.stores.sql.tables import DEFAULT_TABLE
from ditto_tasks.memory.stores.sql.vectors import Embedding
from ditto_tasks.retrieval.providers.opening import MODEL, open_embedding

if TYPE_CHECKING:
    from pydantic import SecretStr

    from ditto_tasks.memory.stores.qdrant import QdrantMemoryStore
    from ditto_tasks.settings import Settings

_log = logging.getLogger(__name__)

URL: Final = "DITTO_WORKER_MEMORY_URL"
POSTGRES_URL: Final = "DITTO_WORKER_MEMORY_POSTGRES_URL"
QDRANT_URL: Final = "DITTO_WORKER_MEMORY_QDRANT_URL"
DIMENSIONS: Final = "DITTO_WORKER_MEMORY_EMBEDDING_DIMENSIONS"
EXAMPLE: Final = "sqlite:///memory.db"
SQL_SCHEMES: Final = ("sqlite", "postgres", "postgresql", "mysql", "mariadb")
QDRANT_SCHEMES: Final = ("qdrant", "qdrants", "qdrant+local")


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


def open_store(settings: Settings) -> SqlMemoryStore | QdrantMemoryStore:
    """The store that the environment names, by one URL or by the variables of one kind."""
    variable, url = _configured(settings)
    scheme = url.split(":", 1)[0]
    if scheme.split("+", 1)[0] in SQL_SCHEMES:
        table = settings.connections.memory_postgres_table or DEFAULT_TABLE
        embedding = _embedding(settings, scheme)
        with _url_errors(variable):
            return SqlMemoryStore(url, table=table, embedding=embedding)
    if variable == QDRANT_URL and scheme not in QDRANT_SCHEMES:
        url = _with_collection(settings, url)
        scheme = url.split(":", 1)[0]
    if scheme in QDRANT_SCHEMES:
        with _url_errors(variable):
            return _open_qdrant(settings, url)
    raise _refused(variable, "must be a sqlite, postgresql, mysql or qdrant URL")


@contextmanager
def _url_errors(variable: str) -> Iterator[None]:
    """What a store says of its URL, said of the variable."""
    try:
        yield
    except MemoryError as error:
        if error.code != "INVALID_INPUT":
            raise
        reason = error.message.removeprefix("/url: ")
    else:
        return
    raise _refused(variable, f"{reason}; for example {EXAMPLE}")


def without_vectors(settings: Settings) -> str | None:
    """Why memory has no vectors although an embedding is configured; None if it has them, or none is."""
    urls = list(_named(settings).values())
    if settings.connections.embedding_model is None or len(urls) != 1:
        return None
    if _has_no_vectors(urls[0].get_secret_value().split(":", 1)[0]):
        return "only PostgreSQL and Qdrant keep vectors"
    return f"{DIMENSIONS} is not set" if settings.connections.memory_embedding_dimensions is None else None


def _embedding(settings: Settings, scheme: str) -> Embedding | None:
    """Where the dimensions of memory's vectors are set; SettingsError if there can be none."""
    found, dimensions = settings.connections, settings.connections.memory_embedding_dimensions
    if dimensions is None:
        reason = without_vectors(settings)
        if reason is not None:  # the embedding may be meant for RETRIEVAL only, so that this is no error
            _log.warning("memory has no vectors, though an embedding is configured: %s", reason)
        return None
    if _has_no_vectors(scheme):
        raise _refused(DIMENSIONS, "only PostgreSQL and Qdrant keep vectors")
    provider = open_embedding(settings)
    if provider is None:
        raise _refused(DIMENSIONS, f"needs an embedding, see {MODEL}")
    return Embedding(provider, dimensions, found.embedding_model or "")


def _has_no_vectors(scheme: str) -> bool:
    return scheme.split("+", 1)[0] in ("sqlite", "mysql", "mariadb")


def _open_qdrant(settings: Settings, url: str) -> QdrantMemoryStore:
    found = settings.connections
    if found.memory_embedding_dimensions is None:
        raise _refused(DIMENSIONS, "is needed for a memory on Qdrant")
    try:
        module = import_module("ditto_tasks.memory.stores.qdrant")
    except ImportError as exc:
        raise _refused(URL, "a memory on Qdrant needs the extra `qdrant`") from exc
    key = found.memory_qdrant_api_key
    store: QdrantMemoryStore = module.QdrantMemoryStore(
        url,
        dimensions=found.memory_embedding_dimensions,
        model=found.embedding_model or "",
        embedding=open_embedding(settings),
        api_key=None if key is None else key.get_secret_value(),
    )
    return store


def _with_collection(settings: Settings, url: str) -> str:
    """``http://host:port`` and a collection's name as one URL of ours."""
    scheme, _, place = url.rstrip("/").partition("://")
    if scheme not in ("http", "https"):
        raise _refused(QDRANT_URL, "must be an http, https or qdrant URL")
    collection = settings.connections.memory_qdrant_collection or DEFAULT_TABLE
    return f"{'qdrants' if scheme == 'https' else 'qdrant'}://{place}/{collection}"


def memory_is_configured(settings: Settings) -> bool:
    """Whether the environment names a memory."""
    return bool(_named(settings))


def _configured(settings: Settings) -> tuple[str, str]:
    """The variable that says where memory is, and its value."""
    named = _named(settings)
    if len(named) > 1:
        raise _refused(sorted(named)[0], f"also {sorted(named)[1]} is set; exactly one says where memory is")
    if not named:
        raise _refused(URL, f"is not set, so there is no memory; for example {EXAMPLE}")
    ((variable, url),) = named.items()
    return variable, url.get_secret_value()


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
