"""The driver's edge: how a collection of Qdrant is opened, and what its errors become."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient, models

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.memory.stores.qdrant_answers import TIMEOUT_S, BoundedTransport

__all__ = ["QdrantClient", "errors_as", "having", "models", "open_collection"]

# A folder can be opened once only, and a worker of MEMORY and RETRIEVAL has two stores in it:
# (process, folder) -> the client, and how many stores hold it.
_folders: Final[dict[tuple[int, str], tuple[QdrantClient, int]]] = {}
_folders_lock: Final = threading.Lock()


def _open_client(url: str, api_key: str | None) -> tuple[str, QdrantClient, Callable[[], None]]:
    """Collection, client, and what closes that; INVALID_INPUT names no part of the URL."""
    parts = urlsplit(url)
    place, _, collection = unquote(parts.path).rpartition("/")
    if parts.scheme == "qdrant+local" and place and collection:
        return collection, *_open_folder(place)
    if parts.scheme in ("qdrant", "qdrants") and parts.hostname and collection:
        client = QdrantClient(
            check_compatibility=False,  # it warns from a thread of its own; every call has its errors
            host=parts.hostname,
            port=parts.port or 6333,
            api_key=api_key,
            timeout=TIMEOUT_S,
            https=parts.scheme == "qdrants",
            transport=BoundedTransport(),
        )
        return collection, client, client.close
    raise MemoryError.invalid_input(
        "/url", "must be qdrant://host:port/collection or qdrant+local:///path/name"
    )


def _open_folder(folder: str) -> tuple[QdrantClient, Callable[[], None]]:
    key = os.getpid(), os.path.realpath(folder)
    with _folders_lock:
        client, holders = _folders.get(key) or (QdrantClient(path=folder), 0)
        _folders[key] = client, holders + 1
    leaving = ExitStack()  # leaves once, however often it is closed
    leaving.callback(_leave_folder, key)
    return client, leaving.close


def _leave_folder(key: tuple[int, str]) -> None:
    with _folders_lock:
        client, holders = _folders.pop(key)
        if holders > 1:
            _folders[key] = client, holders - 1
        else:
            client.close()


def open_collection(
    url: str, api_key: str | None, vectors: models.VectorParams, vector: str, marks: JsonObject
) -> tuple[str, QdrantClient, Callable[[], None]]:
    """Its name, a client, and what closes that; a collection made with other marks is EMBEDDING_MISMATCH."""
    name, client, leave = _open_client(url, api_key)
    try:
        with errors_as("MEMORY_BACKEND_ERROR"):
            _create_or_compare(client, name, vectors, vector, marks)
    except MemoryError:
        leave()
        raise
    return name, client, leave


def _create_or_compare(
    client: QdrantClient, name: str, vectors: models.VectorParams, vector: str, marks: JsonObject
) -> None:
    if not client.collection_exists(name):
        client.create_collection(name, vectors_config={vector: vectors}, metadata={"ditto": marks})
        return
    config = client.get_collection(name).config
    if (config.metadata or {}).get("ditto") != marks:
        raise MemoryError("EMBEDDING_MISMATCH", "the collection was made for another embedding")


def having(name: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=name, match=models.MatchValue(value=value))


@contextmanager
def errors_as(code: str) -> Iterator[None]:
    """What client and server raise, under one code; their texts can hold addresses and content."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as exc:
        raise MemoryError(code, f"the memory server failed ({type(exc).__name__})") from exc
