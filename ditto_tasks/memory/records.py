"""What every store agrees on: which names it keeps, and when two records are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory.models import MemoryDraft, MemoryItem, MemoryPatch

MAX_KEY_CHARS: Final = 512  # with the namespace it must fit one index entry of every database
MAX_NAMESPACE_CHARS: Final = 128
OPERATION_KEEP_MS: Final = 7 * 24 * 3_600_000  # no queue redelivers a message after a week


def item_of(draft: MemoryDraft, record_id: str) -> MemoryItem:
    """The record that ``draft`` becomes under an id."""
    return MemoryItem.assemble(
        {"id": record_id, **{name: draft.__dict__[name] for name in draft.model_fields_set}}
    )


def identical(left: JsonValue, right: JsonValue) -> bool:
    """JSON equality: 1 is 1.0, but true is not 1, and integers are compared with all their digits."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(identical(value, right[key]) for key, value in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(identical, left, right))
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def same_record(item: MemoryItem, draft: MemoryDraft | MemoryItem) -> bool:
    """Whether writing ``draft`` again would change nothing."""
    return identical(item.content, draft.content) and identical(item.metadata, draft.metadata)


def is_storable(text: str) -> bool:
    """Whether every database keeps ``text`` as it is."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def check_namespace(namespace: str) -> None:
    """Refuse a namespace that no database keeps as it is."""
    if len(namespace) > MAX_NAMESPACE_CHARS or not is_storable(namespace):
        raise MemoryError.invalid_input("/namespace", f"at most {MAX_NAMESPACE_CHARS} plain characters")


def check_key(index: int, key: str | None) -> None:
    """Refuse a draft's key that no database keeps as it is."""
    if key is None:
        return
    if len(key) > MAX_KEY_CHARS or not is_storable(key):
        reason = f"at most {MAX_KEY_CHARS} characters, without NUL and lone surrogates"
        raise MemoryError.invalid_input(f"/memories/{index}/key", reason)


def conflict() -> MemoryError:
    """The refusal of a batch in which a key stands for something else."""
    return MemoryError("CONFLICT", "a key has other content already; nothing of the batch was written")


def patched(item: MemoryItem, patch: MemoryPatch) -> MemoryItem:
    """The record after a patch."""
    values = {name: item.__dict__[name] for name in item.model_fields_set}
    values.update({name: patch.__dict__[name] for name in patch.model_fields_set if name != "id"})
    return MemoryItem.assemble(values)


def new_ids(now_ms: int, count: int) -> Iterator[str]:
    """Version 7 UUIDs: later batches sort after earlier ones, and a batch in its own order."""
    start = int.from_bytes(os.urandom(8), "big") >> 2  # room to count up within the 62 free bits
    for number in range(count):
        tail = (start + number) & (2**62 - 1)
        digits = f"{now_ms:012x}7{number & 0xFFF:03x}{2**63 | tail:016x}"
        yield "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
