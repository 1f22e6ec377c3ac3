"""Checks of what a store or a search provider answered: it is other people's code, and may be wrong."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.models import (
    GetInput,
    MemoryDraft,
    MemoryItem,
    MemoryPatch,
    MemorySearchResult,
    Query,
    QueryPage,
)
from ditto_tasks.models import WireModel, from_wire

ModelT = TypeVar("ModelT", bound=WireModel)


def checked_get(answer: object, asked: GetInput) -> Sequence[MemoryItem]:
    """Each record once, and only records that were asked for."""
    items = _unique(_sequence(MemoryItem, answer))
    ids, keys = set(asked.ids or ()), set(asked.keys or ())
    if any(item.id not in ids and item.key not in keys for item in items):
        raise _wrong("a record that was not asked for")
    return items


def checked_page(answer: object, query: Query) -> QueryPage:
    """At most as many records as asked for, each once."""
    page = _parsed(QueryPage, answer)
    _unique(page.items)
    if len(page.items) > query.limit:
        raise _wrong("more records than the limit")
    return page


def checked_results(answer: object, limit: int) -> Sequence[MemorySearchResult]:
    """At most ``limit`` results, each record once, with finite scores."""
    results = _sequence(MemorySearchResult, answer)
    _unique([result.memory for result in results])
    if len(results) > limit:
        raise _wrong("more results than the limit")
    return results


def checked_written(answer: object, drafts: Sequence[MemoryDraft]) -> Sequence[MemoryItem]:
    """One record a draft, in order; only drafts of one key may share a record."""
    items = _sequence(MemoryItem, answer)
    if len(items) != len(drafts):
        raise _wrong("not one record a draft")
    if any(item.key != draft.key for item, draft in zip(items, drafts, strict=True)):
        raise _wrong("records of other keys")
    if len({item.id for item in items}) != _distinct_drafts(drafts):
        raise _wrong("an id twice")
    return items


def checked_updated(answer: object, patches: Sequence[MemoryPatch]) -> Sequence[MemoryItem]:
    """The patched records, in the order of the patches."""
    items = _sequence(MemoryItem, answer)
    if [item.id for item in items] != [patch.id for patch in patches]:
        raise _wrong("other records than the patched ones")
    return items


def checked_deleted(answer: object, ids: Sequence[str]) -> tuple[str, ...]:
    """Some of the ids asked for, each once."""
    if not isinstance(answer, (list, tuple)) or not all(isinstance(entry, str) for entry in answer):
        raise _wrong("not a list of ids")
    if len(set(answer)) != len(answer) or not set(answer) <= set(ids):
        raise _wrong("other ids than asked for")
    return tuple(answer)


def _sequence(model: type[ModelT], answer: object) -> Sequence[ModelT]:
    if not isinstance(answer, (list, tuple)):
        raise _wrong("not a list")
    return [_parsed(model, entry) for entry in answer]


def _parsed(model: type[ModelT], value: object) -> ModelT:
    try:
        return from_wire(model, value, error=MemoryError)
    except MemoryError:
        raise _wrong("a malformed record") from None


def _unique(items: Sequence[MemoryItem]) -> Sequence[MemoryItem]:
    if len({item.id for item in items}) != len(items):
        raise _wrong("an id twice")
    return items


def _distinct_drafts(drafts: Iterable[MemoryDraft]) -> int:
    keys = [draft.key for draft in drafts]
    return keys.count(None) + len({key for key in keys if key is not None})


def _wrong(what: str) -> MemoryError:
    return MemoryError("INVALID_BACKEND_OUTPUT", f"the memory backend answered {what}")
