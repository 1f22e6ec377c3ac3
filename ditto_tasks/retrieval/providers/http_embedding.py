"""Embeddings over HTTP, by the `/embeddings` call that most model servers share."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit
from urllib.request import Request

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import RetrievalError
from ditto_tasks.http_exchange import AnswerTooLargeError, ExchangeError, exchange
from ditto_tasks.json_values import InvalidJson, JsonValue, decode, text_or_json
from ditto_tasks.retrieval.answers import checked_vectors
from ditto_tasks.retrieval.base import Vector

BATCH_SIZE: Final = 64
TIMEOUT_MS: Final = 30_000  # of one request
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024  # 64 vectors of 65,536 dimensions, as text


class HttpEmbedding:
    """An `EmbeddingProvider`; the key goes into the Authorization header and nowhere else."""

    def __init__(
        self,
        base_url: str,
        *,
        model: str,
        api_key: str | None = None,
        dimensions: int | None = None,
        batch_size: int = BATCH_SIZE,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        if urlsplit(base_url).scheme not in ("http", "https"):
            raise RetrievalError("RETRIEVAL_INVALID_INPUT", "the embedding URL must be http or https")
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout_s = timeout_ms / 1_000

    def embed(self, contents: Sequence[JsonValue], token: CancelToken) -> list[Vector]:
        """One vector a content; what is not text is embedded as its JSON."""
        texts = list(map(text_or_json, contents))
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._batch_size):
            token.raise_if_cancelled()
            vectors += self._embed_batch(texts[start : start + self._batch_size], token)
        return checked_vectors(vectors, len(texts), self._dimensions)

    def _embed_batch(self, texts: list[str], token: CancelToken) -> list[Vector]:
        asked: dict[str, JsonValue] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions is not None:
            asked["dimensions"] = self._dimensions
        return _in_order(self._post(json.dumps(asked).encode(), token), len(texts))

    def _post(self, body: bytes, token: CancelToken) -> JsonValue:
        request = Request(self._url, data=body, headers=self._headers, method="POST")  # noqa: S310 - http(s) only
        end_s = time.monotonic() + self._timeout_s

        def left_s() -> float:
            token.raise_if_cancelled()
            return end_s - time.monotonic()

        try:
            answer = exchange(request, max_bytes=MAX_ANSWER_BYTES, left_s=left_s, proxies=False)
        except AnswerTooLargeError:
            raise _bad("too large an answer") from None
        except ExchangeError:
            raise _failed("the embedding service could not be reached") from None
        if answer.status >= 300:
            raise _failed(f"the embedding service answered {answer.status}")
        return _decoded(answer.body)


def _decoded(data: bytes) -> JsonValue:
    try:
        return decode(data)
    except InvalidJson:
        raise _bad("something that is not JSON") from None


def _in_order(answer: JsonValue, count: int) -> list[Vector]:
    """The vectors by their index, whatever order they came in."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise _bad("not one vector a text")
    by_index = {row.get("index"): row.get("embedding") for row in rows if isinstance(row, dict)}
    if set(map(repr, by_index)) != set(map(repr, range(count))):
        raise _bad("vectors whose indexes are not those of the texts")
    return checked_vectors([by_index[index] for index in range(count)], count)


def _bad(what: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_INVALID_EMBEDDING", f"the embedding service answered {what}")


def _failed(reason: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_BACKEND_ERROR", reason)
