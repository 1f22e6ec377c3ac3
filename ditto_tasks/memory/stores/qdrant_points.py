"""Records as Qdrant points and back: everything but the calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import FrozenDict, InvalidJson, JsonObject, JsonValue, decode, encode, freeze
from ditto_tasks.memory.erasure import subjects_of
from ditto_tasks.memory.filters import Bound, MemoryFilter, facets
from ditto_tasks.memory.models import MemoryDraft, MemoryItem, WriteOperation
from ditto_tasks.memory.paging import Stored
from ditto_tasks.memory.records import conflict, item_of, same_record

_IDS: Final = UUID("9d3c2f6e-5a0b-4c53-8f0e-2f5f6a4b7c11")  # the root of ids that are derived from names
MEMORY: Final = "memory"
OPERATION: Final = "operation"
TOMBSTONE: Final = "tombstone"


def keyed_id(namespace: str, key: str) -> str:
    """The id of the record under a key: one key, one point, whoever writes it."""
    return _derived("key", namespace, key)


def written_id(namespace: str, operation_id: str, index: int) -> str:
    """The id of the record that an operation makes of a draft without a key."""
    return _derived("draft", namespace, operation_id, str(index))


def operation_point_id(namespace: str, operation_id: str) -> str:
    """The id of an operation's own point."""
    return _derived(OPERATION, namespace, operation_id)


def tombstone_point_id(name: str) -> str:
    """The id of the point that notes an erasure."""
    return _derived(TOMBSTONE, name)


def is_point_id(record_id: str) -> bool:
    """Whether an id is one that this store can have given."""
    try:
        return str(UUID(record_id)) == record_id
    except ValueError:
        return False


def named(
    drafts: Sequence[MemoryDraft],
    fresh_ids: Iterable[str],
    *,
    namespace: str,
    operation: WriteOperation | None,
) -> list[MemoryItem]:
    """Drafts as records: ids from their keys, else from the operation, else fresh ones."""
    items = []
    for index, (draft, record_id) in enumerate(zip(drafts, fresh_ids, strict=True)):
        if draft.key is not None:
            record_id = keyed_id(namespace, draft.key)
        elif operation is not None:
            record_id = written_id(namespace, operation.id, index)
        items.append(item_of(draft, record_id))
    return items


def unwritten(items: Sequence[MemoryItem], stored: Mapping[str, Stored]) -> list[MemoryItem]:
    """The records that are to be written, each once; CONFLICT if one is there with other content."""
    new: dict[str, MemoryItem] = {}
    for item in items:
        known = stored[item.id].item if item.id in stored else new.get(item.id)
        if known is None:
            new[item.id] = item
        elif not same_record(known, item):
            raise conflict()
    return list(new.values())


def memory_payload(item: MemoryItem, namespace: str, created_ms: int, updated_ms: int) -> JsonObject:
    """The complete record. JSON is kept as text, since Qdrant rounds integers and refuses lone surrogates."""
    return {
        "kind": MEMORY,
        "namespace": namespace,
        "key": item.key,
        "owners": list[JsonValue](sorted(subjects_of(namespace, [] if item.key is None else [item.key]))),
        "content": encode(item.content).decode(),
        "metadata": None if item.metadata is None else encode(item.metadata).decode(),
        "facets": [facet_text(path, value) for path, value in sorted(facets(item.metadata))],
        "createdAt": created_ms,
        "updatedAt": updated_ms,
    }


def facet_text(path: str, value: str) -> str:
    """One facet as one keyword."""
    return f"{path}\x03{value}"


def read_item(point_id: str, payload: Mapping[str, JsonValue]) -> MemoryItem:
    """The record of a point."""
    values: dict[str, object] = {"id": point_id, "content": _read(payload.get("content"))}
    if payload.get("key") is not None:
        values["key"] = payload["key"]
    if payload.get("metadata") is not None:
        values["metadata"] = _read(payload["metadata"])
    return MemoryItem.assemble(values)


def stored(point_id: str, payload: JsonObject) -> Stored:
    """The record of a point, and when it was made and changed."""
    created, updated = payload.get("createdAt"), payload.get("updatedAt")
    return Stored(read_item(point_id, payload), int(str(created)), int(str(updated)))


def passes_ranges(item: MemoryItem, wanted: MemoryFilter) -> bool:
    """Whether a record passes the terms that Qdrant wasn't asked for."""
    found = facets(item.metadata)
    return all(any(_within(facet, bound) for facet in found) for bound in ranges(wanted))


def ranges(wanted: MemoryFilter) -> list[Bound]:
    return [bound for bound in wanted.bounds if bound.operator != "eq"]


def _within(facet: tuple[str, str], bound: Bound) -> bool:
    path, value = facet
    if path != bound.path or value[0] != bound.value[0]:
        return False
    match bound.operator:
        case "gt":
            return value > bound.value
        case "gte":
            return value >= bound.value
        case "lt":
            return value < bound.value
    return value <= bound.value


def _derived(*names: str) -> str:
    return str(uuid5(_IDS, encode(list(names)).decode()))


def _read(text: JsonValue) -> JsonValue:
    try:
        return freeze(decode(text)) if isinstance(text, str) else FrozenDict()
    except InvalidJson:
        raise MemoryError("INVALID_BACKEND_OUTPUT", "a stored record is not JSON") from None
