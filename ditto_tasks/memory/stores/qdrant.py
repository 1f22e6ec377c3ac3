"""MEMORY on Qdrant, a server's or a local folder's: records as points, found by vector.

Qdrant has no transactions. A batch is checked first and then written by one call, and ids are derived from
keys and operations, so that a repeat writes the same points; but of two writers of one key at the same moment
the later one may learn of the conflict only after its other drafts were written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Self

from ditto_tasks.errors import MemoryError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.memory.embedding import PREPROCESSING, query_vector, vectors_of
from ditto_tasks.memory.erasure import TOMBSTONE_KEEP_MS, Subject, erased, subjects_of
from ditto_tasks.memory.filters import MemoryFilter, parse_filter
from ditto_tasks.memory.models import (
    MemoryDraft,
    MemoryItem,
    MemoryPatch,
    MemorySearchResult,
    Query,
    QueryPage,
    Search,
    WriteOperation,
)
from ditto_tasks.memory.paging import Stored, page_of
from ditto_tasks.memory.records import (
    OPERATION_KEEP_MS,
    check_key,
    check_namespace,
    conflict,
    new_ids,
    patched,
    same_record,
)
from ditto_tasks.memory.stores import qdrant_points as points
from ditto_tasks.memory.stores.qdrant_answers import in_parts
from ditto_tasks.memory.stores.qdrant_collection import (
    errors_as,
    having,
    models,
    open_collection,
)
from ditto_tasks.retrieval.base import EmbeddingProvider

VECTOR: Final = "content"  # the name of the one vector of a record
PAGE: Final = 1_000  # points of one read


class QdrantMemoryStore:
    """A `MemoryStore` and, by vectors, a `MemorySearchProvider`; ``within`` gives views of one namespace.

    `url` is ``qdrant://host:port/collection`` or ``qdrant+local:///path/collection``. The collection records
    the model, the preprocessing and the dimensions; opening it with others is EMBEDDING_MISMATCH. Without an
    embedding provider records have no vectors, and only numeric queries can be searched for.
    """

    def __init__(
        self,
        url: str,
        *,
        dimensions: int,
        model: str = "",
        embedding: EmbeddingProvider | None = None,
        api_key: str | None = None,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self._embedding = embedding
        self._dimensions = dimensions
        self._clock_ms = clock_ms or _system_clock_ms
        self._namespace = ""
        marks: JsonObject = {"model": model, "dimensions": dimensions, "preprocessing": PREPROCESSING}
        vectors = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)
        opened = open_collection(url, api_key, vectors, VECTOR, marks)
        self._collection, self._client, self._leave = opened

    def within(self, namespace: str) -> Self:
        """The same collection, confined to ``namespace``."""
        check_namespace(namespace)
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__, _namespace=namespace)
        return view

    def ping(self) -> None:
        """Raise unless the collection can be reached."""
        with errors_as("MEMORY_BACKEND_ERROR"):
            self._client.get_collection(self._collection)

    def close(self) -> None:
        """Close the client, which views and, in a folder, other stores of this process share."""
        self._leave()

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> list[MemoryItem]:
        named = [*ids, *(points.keyed_id(self._namespace, key) for key in keys)]
        found = self._retrieve(named)
        return [found[point_id].item for point_id in dict.fromkeys(named) if point_id in found]

    def query(self, query: Query) -> QueryPage:
        namespace, wanted = self._filter(query.filter)
        found = [] if wanted is None else self._scroll(namespace, wanted)
        return page_of(found, query, namespace)

    def search(self, search: Search) -> list[MemorySearchResult]:
        if search.strategy not in (None, "vector"):
            raise MemoryError("UNSUPPORTED_STRATEGY", "strategy: must be vector")
        if search.options:
            raise MemoryError.invalid_input("/options", "the strategy vector has no options")
        namespace, wanted = self._filter(search.filter)
        vector = query_vector(self._embedding, search.query, self._dimensions)
        if wanted is None:
            return []
        with errors_as("MEMORY_BACKEND_ERROR"):
            hits = self._client.query_points(
                self._collection,
                query=list(vector),
                using=VECTOR,
                query_filter=self._condition(namespace, wanted, ranged=True),
                limit=search.limit,
                with_payload=False,
            ).points
        found = self._points([str(hit.id) for hit in hits])  # in parts: together they may be large
        return [
            MemorySearchResult(
                memory=points.read_item(str(hit.id), found[str(hit.id)]), score=float(hit.score)
            )
            for hit in hits
            if str(hit.id) in found  # else it was deleted in between
        ]

    def write(
        self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation | None = None
    ) -> list[MemoryItem]:
        for index, draft in enumerate(drafts):
            check_key(index, draft.key)
        self._refuse_erased([draft.key for draft in drafts if draft.key is not None])
        fresh = new_ids(self._clock_ms(), len(drafts))
        items = points.named(drafts, fresh, namespace=self._namespace, operation=operation)
        if operation is not None and self._recorded(operation):
            return items
        stored = self._retrieve([item.id for item in items])
        new = points.unwritten(items, stored)
        self._upsert([Stored(item, now, now) for now in [self._clock_ms()] for item in new], insert=True)
        written = [item.id for item in new]
        if operation is not None:
            self._record(operation)
            written.append(points.operation_point_id(self._namespace, operation.id))
        self._undo_if_erased(items, written)
        return self._confirmed(items)

    def recall(self, drafts: Sequence[MemoryDraft], *, operation: WriteOperation) -> list[MemoryItem] | None:
        if not self._recorded(operation):
            return None
        fresh = new_ids(self._clock_ms(), len(drafts))
        return points.named(drafts, fresh, namespace=self._namespace, operation=operation)

    def update(self, patches: Sequence[MemoryPatch]) -> list[MemoryItem]:
        found = self._retrieve([patch.id for patch in patches])
        if len(found) < len(patches):
            raise MemoryError("NOT_FOUND", f"{len(patches) - len(found)} of the ids do not exist")
        now_ms = self._clock_ms()
        changed = [
            Stored(patched(found[patch.id].item, patch), found[patch.id].created_ms, now_ms)
            for patch in patches
        ]
        self._upsert(changed, insert=False)
        items = [each.item for each in changed]
        self._undo_if_erased(items, [item.id for item in items])
        return items

    def delete(self, ids: Sequence[str]) -> list[str]:
        present = self._retrieve(ids)
        removed = [point_id for point_id in ids if point_id in present]
        if removed:
            with errors_as("WRITE_UNCONFIRMED"):
                self._client.delete(self._collection, models.PointIdsList(points=list(removed)), wait=True)
        return removed

    def erase(self, subject: Subject) -> None:
        """Remove all of a session or tenant, whatever this view's namespace, and note the erasure."""
        payload = {"kind": points.TOMBSTONE, "createdAt": self._clock_ms()}
        mark = models.PointStruct(id=points.tombstone_point_id(subject.tombstone), vector={}, payload=payload)
        theirs = models.Filter(must=[having("owners", subject.tombstone)])
        with errors_as("WRITE_UNCONFIRMED"):
            self._client.upsert(self._collection, [mark], wait=True)
            self._client.delete(self._collection, models.FilterSelector(filter=theirs), wait=True)

    def remaining(self, subject: Subject) -> dict[str, int]:
        """What of a session or tenant is there now, by kind; a record's vector goes with it."""
        counts = {}
        for name, kind in (("memories", points.MEMORY), ("memory operations", points.OPERATION)):
            theirs = models.Filter(must=[having("kind", kind), having("owners", subject.tombstone)])
            with errors_as("MEMORY_BACKEND_ERROR"):
                counts[name] = self._client.count(self._collection, theirs, exact=True).count
        return counts

    def _refuse_erased(self, keys: Sequence[str]) -> None:
        ids = [points.tombstone_point_id(name) for name in subjects_of(self._namespace, keys)]
        with errors_as("MEMORY_BACKEND_ERROR"):
            found = self._client.retrieve(self._collection, ids, with_payload=True) if ids else []
        oldest = self._clock_ms() - TOMBSTONE_KEEP_MS
        if any(int((point.payload or {})["createdAt"]) > oldest for point in found):
            raise erased()

    def _undo_if_erased(self, items: Sequence[MemoryItem], point_ids: Sequence[str]) -> None:
        """An erasure between the look at tombstones and the write has deleted nothing of what was written."""
        try:
            self._refuse_erased([item.key for item in items if item.key is not None])
        except MemoryError as error:
            if error.code == "ERASED":
                with errors_as("WRITE_UNCONFIRMED"):
                    self._client.delete(
                        self._collection, models.PointIdsList(points=list(point_ids)), wait=True
                    )
            raise

    def _confirmed(self, items: Sequence[MemoryItem]) -> list[MemoryItem]:
        """What is stored under these ids: another writer may have been first, with this content or not."""
        stored = self._retrieve([item.id for item in items])
        for item in items:
            if item.id not in stored:
                raise MemoryError("WRITE_UNCONFIRMED", "the write could not be confirmed")
            if not same_record(stored[item.id].item, item):
                raise conflict()
        return [stored[item.id].item for item in items]

    def _recorded(self, operation: WriteOperation) -> bool:
        point_id = points.operation_point_id(self._namespace, operation.id)
        with errors_as("MEMORY_BACKEND_ERROR"):
            found = self._client.retrieve(self._collection, [point_id], with_payload=True)
        if not found:
            return False
        if (found[0].payload or {}).get("inputHash") != operation.input_hash:
            raise MemoryError("CONFLICT", "the operation id was used for another input")
        return True

    def _record(self, operation: WriteOperation) -> None:
        payload = {
            "kind": points.OPERATION,
            "namespace": self._namespace,
            "owners": sorted(subjects_of(self._namespace, ())),
            "inputHash": operation.input_hash,
            "createdAt": self._clock_ms(),
        }
        point_id = points.operation_point_id(self._namespace, operation.id)
        point = models.PointStruct(id=point_id, vector={}, payload=payload)
        outdated = models.Filter(
            must=[
                having("kind", points.OPERATION),
                models.FieldCondition(
                    key="createdAt", range=models.Range(lt=self._clock_ms() - OPERATION_KEEP_MS)
                ),
            ]
        )
        with errors_as("WRITE_UNCONFIRMED"):
            self._client.upsert(self._collection, [point], wait=True)
            self._client.delete(self._collection, models.FilterSelector(filter=outdated), wait=True)

    def _upsert(self, records: Sequence[Stored], *, insert: bool) -> None:
        if not records:
            return
        contents = {each.item.id: each.item.content for each in records}
        vectors = {} if self._embedding is None else vectors_of(self._embedding, contents, self._dimensions)
        structs = [
            models.PointStruct(
                id=each.item.id,
                vector={VECTOR: list(vectors[each.item.id])} if each.item.id in vectors else {},
                payload=points.memory_payload(each.item, self._namespace, each.created_ms, each.updated_ms),
            )
            for each in records
        ]
        mode = models.UpdateMode.INSERT_ONLY if insert else models.UpdateMode.UPSERT
        with errors_as("WRITE_UNCONFIRMED"):
            self._client.upsert(self._collection, structs, wait=True, update_mode=mode)

    def _filter(self, wire: JsonObject | None) -> tuple[str, MemoryFilter | None]:
        """The namespace that a call runs in and the filter; None where no record can pass it."""
        wanted = parse_filter(wire)
        namespace = self._namespace if wanted.namespace is None else wanted.namespace
        if self._namespace and namespace != self._namespace:
            return self._namespace, None
        return namespace, wanted

    def _condition(self, namespace: str, wanted: MemoryFilter, *, ranged: bool) -> models.Filter:
        """What Qdrant is asked for; with `ranged` also the ids that pass ranges, which it can't compare."""
        terms = {"kind": points.MEMORY, "namespace": namespace}
        if wanted.key is not None:
            terms["key"] = wanted.key
        must: list[models.Condition] = [having(name, value) for name, value in terms.items()]
        must += [
            having("facets", points.facet_text(bound.path, bound.value))
            for bound in wanted.bounds
            if bound.operator == "eq"
        ]
        if ranged and points.ranges(wanted):
            ids = [each.item.id for each in self._scroll(namespace, wanted)]
            must.append(models.HasIdCondition(has_id=list(ids)))
        return models.Filter(must=must)

    def _scroll(self, namespace: str, wanted: MemoryFilter) -> list[Stored]:
        condition = self._condition(namespace, wanted, ranged=False)
        ids: list[str] = []
        offset = None
        while True:
            with errors_as("MEMORY_BACKEND_ERROR"):
                page, offset = self._client.scroll(
                    self._collection, scroll_filter=condition, limit=PAGE, offset=offset, with_payload=False
                )
            ids += [str(point.id) for point in page]
            if offset is None:
                break
        found = [points.stored(point_id, payload) for point_id, payload in self._points(ids).items()]
        return [each for each in found if points.passes_ranges(each.item, wanted)]

    def _retrieve(self, ids: Sequence[str]) -> dict[str, Stored]:
        """The records of this namespace among ids; what is no UUID is nobody's id."""
        named = [record_id for record_id in dict.fromkeys(ids) if points.is_point_id(record_id)]
        return {
            point_id: points.stored(point_id, payload)
            for point_id, payload in self._points(named).items()
            if payload.get("kind") == points.MEMORY and payload.get("namespace") == self._namespace
        }

    def _points(self, ids: Sequence[str]) -> dict[str, JsonObject]:
        """The payloads of those of these points that are there, in as many answers as they need."""

        def read(part: Sequence[str]) -> Sequence[models.Record]:
            return self._client.retrieve(self._collection, list(part), with_payload=True)

        with errors_as("MEMORY_BACKEND_ERROR"):
            return {str(point.id): point.payload or {} for point in in_parts(read, ids, PAGE)}


def _system_clock_ms() -> int:
    return time.time_ns() // 1_000_000
