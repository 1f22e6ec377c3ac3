"""Vectors of records and of queries: what of a content is embedded, and what a query may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ditto_tasks.cancellation import current_token
from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.retrieval.answers import as_vector, checked_vectors
from ditto_tasks.retrieval.base import EmbeddingProvider, Vector

PREPROCESSING: Final = "text-or-content.text/1"  # `text_to_embed`; recorded beside the model


def text_to_embed(content: JsonValue) -> str | None:
    """A text content, or the text of an object's `text`; None for a record without a vector."""
    text = content.get("text") if isinstance(content, dict) else content
    return text if isinstance(text, str) and text.strip() else None


def vectors_of(
    provider: EmbeddingProvider, contents: Mapping[str, JsonValue], dimensions: int
) -> dict[str, Vector]:
    """The vectors of those contents that have a text, by the names given."""
    texts = {name: text for name, each in contents.items() if (text := text_to_embed(each)) is not None}
    if not texts:
        return {}
    answer = provider.embed(list(texts.values()), current_token())
    return dict(zip(texts, checked_vectors(answer, len(texts), dimensions), strict=True))


def query_vector(provider: EmbeddingProvider | None, query: JsonValue, dimensions: int) -> Vector:
    """A query's vector: numbers are taken as they are, text is embedded; INVALID_INPUT for anything else."""
    vector = as_vector(query)
    if vector is None and isinstance(query, str) and query.strip():
        if provider is None:
            raise MemoryError("SEARCH_UNAVAILABLE", "text cannot be searched for without an embedding")
        (vector,) = checked_vectors(provider.embed([query], current_token()), 1)
    if vector is None or len(vector) != dimensions:
        raise MemoryError.invalid_input("/query", f"must be text or {dimensions} numbers")
    return vector
