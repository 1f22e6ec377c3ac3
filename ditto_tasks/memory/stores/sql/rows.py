"""Records as rows and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import (
    FrozenDict,
    InvalidJson,
    JsonValue,
    decode,
    encode,
    fast_decode,
    fast_encode,
    freeze,
)
from ditto_tasks.memory.filters import facets
from ditto_tasks.memory.models import MemoryItem
from ditto_tasks.memory.segmentation import fold, spelled_document, text_of

Row = dict[str, str | int | None]


class Record(Protocol):
    """A selected row: id, memory_key, content and metadata, in this order, first."""

    def __getitem__(self, index: int | slice, /) -> Any: ...


def new_row(item: MemoryItem, *, namespace: str, now_ms: int) -> Row:
    """The row of a new record."""
    return {
        "id": item.id,
        "namespace": namespace,
        "memory_key": item.key,
        "created_at": now_ms,
        "updated_at": now_ms,
        **content_columns(item.content, namespace),
        **metadata_columns(item.metadata),
    }


def content_columns(content: JsonValue, namespace: str) -> Row:
    """Everything that is derived from a content."""
    folded = fold(text_of(content))
    return {
        "content": _json_text(content),
        "folded": folded,
        "words": spelled_document(folded, namespace),
    }


def metadata_columns(metadata: dict[str, JsonValue] | None) -> Row:
    return {"metadata": None if metadata is None else _json_text(metadata)}


def facet_rows(namespace: str, items: Iterable[MemoryItem]) -> list[dict[str, str]]:
    """What filters may ask about these records."""
    return [
        {"namespace": namespace, "path": path, "value": value, "memory_id": item.id}
        for item in items
        if item.metadata
        for path, value in facets(item.metadata)
    ]


def read_item(record: Record) -> MemoryItem:
    """The record of a selected row."""
    key, metadata = record[1], record[3]
    values: dict[str, object] = {"id": record[0], "content": _read_json(record[2])}
    if key is not None:
        values["key"] = key
    if metadata is not None:
        values["metadata"] = _read_object(metadata)
    return MemoryItem.assemble(values)


def _json_text(value: JsonValue) -> str:
    """JSON; a space before it says that the fast decoder would not read it back equal."""
    fast = fast_encode(value)
    return " " + encode(value).decode("utf-8") if fast is None else fast.decode("utf-8")


def _read_json(text: str) -> JsonValue:
    try:
        return freeze(decode(text) if text.startswith(" ") else fast_decode(text))
    except InvalidJson:
        raise MemoryError("INVALID_BACKEND_OUTPUT", "a stored record is not JSON") from None


def _read_object(text: str) -> FrozenDict:
    value = _read_json(text)
    if not isinstance(value, FrozenDict):
        raise MemoryError("INVALID_BACKEND_OUTPUT", "stored metadata is not an object")
    return value
