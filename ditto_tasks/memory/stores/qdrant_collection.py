"""The driver's edge: how a collection of Qdrant is opened, and what its errors become."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from qdrant_client import QdrantClient, models

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.memory.stores.qdrant_answers import TIMEOUT_S, BoundedTransport

__all__ = ["QdrantClient", "errors_as", "having", "models", "open_client", "open_collection"]


def open_client(url: str, api_key: str | None) -> tuple[str, QdrantClient]:
    """Collection and client; INVALID_INPUT names no part of the URL."""
    parts = urlsplit(url)
    place, _, collection = unquote(parts.path).rpartition("/")
    if parts.scheme == "qdrant+local" and place and collection:
        return collection, QdrantClient(path=place)
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
        return collection, client
    raise MemoryError.invalid_input(
        "/url", "must be qdrant://host:port/collection or qdrant+local:///path/name"
    )


def open_collection(
    client: QdrantClient, name: str, vectors: models.VectorParams, vector: str, marks: JsonObject
) -> None:
    """Create the collection or find it made with the same marks, else EMBEDDING_MISMATCH."""
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
