"""WRITE, UPDATE and DELETE inside one transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ditto_tasks.errors import MemoryError
from ditto_tasks.memory.erasure import subjects_of
from ditto_tasks.memory.models import MemoryDraft, MemoryItem, MemoryPatch, WriteOperation
from ditto_tasks.memory.records import (
    OPERATION_KEEP_MS,
    check_key,
    conflict,
    is_storable,
    item_of,
    new_ids,
    patched,
    same_record,
)
from ditto_tasks.memory.stores.sql import statements
from ditto_tasks.memory.stores.sql.core import Connection, bindparam, delete, select, update
from ditto_tasks.memory.stores.sql.dialects import Dialect
from ditto_tasks.memory.stores.sql.erasing import refuse_erased
from ditto_tasks.memory.stores.sql.rows import (
    Row,
    content_columns,
    facet_rows,
    metadata_columns,
    new_row,
    read_item,
)
from ditto_tasks.memory.stores.sql.tables import Tables

MAX_OPERATION_CHARS: Final = 128


@dataclass(frozen=True, slots=True)
class Batch:
    """One call's changes. The caller owns the transaction: an exception leaves nothing behind."""

    tables: Tables
    dialect: Dialect
    namespace: str
    now_ms: int

    def write(
        self, connection: Connection, drafts: Sequence[MemoryDraft], operation: WriteOperation | None
    ) -> list[MemoryItem]:
        """One record a draft; the recorded ones if this operation was written before."""
        for index, draft in enumerate(drafts):
            check_key(index, draft.key)
        keys = [draft.key for draft in drafts if draft.key is not None]
        names = sorted(subjects_of(self.namespace, keys))
        refuse_erased(connection, self.tables, self.dialect, names, now_ms=self.now_ms)
        recorded = None if operation is None else self._claim(connection, operation)
        if recorded is not None:
            return _written(drafts, recorded)
        items = self._insert(connection, drafts)
        if operation is not None:
            self._record(connection, operation, items)
        return items

    def recall(
        self, connection: Connection, drafts: Sequence[MemoryDraft], operation: WriteOperation
    ) -> list[MemoryItem] | None:
        """The records of an operation that was committed."""
        recorded = self._recorded(connection, operation)
        return None if recorded is None else _written(drafts, recorded)

    def update(self, connection: Connection, patches: Sequence[MemoryPatch]) -> list[MemoryItem]:
        """The patched records, or NOT_FOUND."""
        current = self._locked(connection, [patch.id for patch in patches])
        missing = [patch.id for patch in patches if patch.id not in current]
        if missing:
            raise MemoryError("NOT_FOUND", f"{len(missing)} of the ids do not exist", {"count": len(missing)})
        items = [patched(current[patch.id], patch) for patch in patches]
        self._replace_content(connection, items, patches)
        self._replace_metadata(connection, items, patches)
        return items

    def delete(self, connection: Connection, ids: Sequence[str]) -> list[str]:
        """The ids that were there; facets go with their records."""
        present = self._locked(connection, ids)
        memories = self.tables.memories
        statement = delete(memories).where(self.dialect.among(memories.c.id, "names"))
        connection.execute(statement, {"names": self.dialect.list_value(list(present))})
        return [record_id for record_id in ids if record_id in present]

    def _claim(self, connection: Connection, operation: WriteOperation) -> list[str] | None:
        """The ids of an operation that was committed; None makes this transaction the one that runs it.

        A second delivery at the same time waits here for the first one's transaction to end.
        """
        operations = self.tables.operations
        claim = {**self._operation_key(operation), "input_hash": operation.input_hash, "ids": ""}
        done = connection.execute(
            self.dialect.insert_absent(operations), {**claim, "created_at": self.now_ms}
        )
        if done.rowcount == 1:
            return None
        return self._recorded(connection, operation)

    def _recorded(self, connection: Connection, operation: WriteOperation) -> list[str] | None:
        operations = self.tables.operations
        known = select(operations.c.input_hash, operations.c.ids).filter_by(**self._operation_key(operation))
        row = connection.execute(known).one_or_none()
        if row is None:
            return None
        input_hash, ids = row
        if input_hash != operation.input_hash:
            raise MemoryError("CONFLICT", "the operation id was used for another input")
        return list(json.loads(ids))

    def _record(self, connection: Connection, operation: WriteOperation, items: Iterable[MemoryItem]) -> None:
        operations = self.tables.operations
        ids = json.dumps([item.id for item in items])
        connection.execute(update(operations).filter_by(**self._operation_key(operation)).values(ids=ids))
        connection.execute(
            delete(operations).where(operations.c.created_at < self.now_ms - OPERATION_KEEP_MS)
        )

    def _operation_key(self, operation: WriteOperation) -> dict[str, str]:
        plain = len(operation.id) <= MAX_OPERATION_CHARS and is_storable(operation.id)
        digest = hashlib.sha256(operation.id.encode("utf-8", "surrogatepass")).hexdigest()
        return {"namespace": self.namespace, "operation_id": operation.id if plain else f"sha256:{digest}"}

    def _insert(self, connection: Connection, drafts: Sequence[MemoryDraft]) -> list[MemoryItem]:
        by_key = self._known(connection, [draft.key for draft in drafts if draft.key is not None])
        items, added = [], []
        for draft, record_id in zip(drafts, new_ids(self.now_ms, len(drafts)), strict=True):
            known = None if draft.key is None else by_key.get(draft.key)
            if known is None:
                known = item_of(draft, record_id)
                added.append(known)
                if draft.key is not None:
                    by_key[draft.key] = known
            elif not same_record(known, draft):
                raise conflict()
            items.append(known)
        raced = self._insert_rows(connection, added)
        return [raced.get(item.id, item) for item in items]

    def _insert_rows(self, connection: Connection, added: list[MemoryItem]) -> dict[str, MemoryItem]:
        """Insert; our id -> the record that another writer committed under the same key meanwhile.

        In the order of keys, so that two batches never wait for each other.
        """
        raced: dict[str, MemoryItem] = {}
        pending = sorted(added, key=lambda item: item.key or "")
        while pending:
            rows = [new_row(item, namespace=self.namespace, now_ms=self.now_ms) for item in pending]
            done = connection.execute(self.dialect.insert_absent(self.tables.memories), rows)
            if done.rowcount == len(rows):
                break
            stored = self._known(connection, [item.key for item in pending if item.key is not None])
            raced.update(_raced(pending, stored))
            # a key that was there a moment ago and is not now was deleted in between
            pending = [item for item in pending if item.key is not None and item.key not in stored]
        self._insert_facets(connection, [item for item in added if item.id not in raced])
        return raced

    def _insert_facets(self, connection: Connection, items: Sequence[MemoryItem]) -> None:
        rows = facet_rows(self.namespace, items)
        if rows:
            connection.execute(*self.dialect.insert_all(self.tables.facets, rows))

    def _known(self, connection: Connection, keys: Sequence[str]) -> dict[str, MemoryItem]:
        if not keys:
            return {}
        statement = statements.named_records(self.tables, self.dialect, "memory_key")
        found = map(read_item, connection.execute(statement, self._names(keys)))
        return {item.key: item for item in found if item.key is not None}

    def _locked(self, connection: Connection, ids: Sequence[str]) -> dict[str, MemoryItem]:
        """The records among ``ids``, locked in the order of ids until the transaction ends."""
        statement = statements.named_records(self.tables, self.dialect, "id").with_for_update()
        found = map(read_item, connection.execute(statement, self._names(ids)))
        return {item.id: item for item in found}

    def _names(self, names: Sequence[str]) -> dict[str, object]:
        known = self.dialect.list_value([name for name in names if is_storable(name)])
        return {"namespace": self.namespace, "names": known}

    def _replace_content(
        self, connection: Connection, items: Sequence[MemoryItem], patches: Sequence[MemoryPatch]
    ) -> None:
        changed = [item for item, patch in zip(items, patches, strict=True) if patch.replaces_content]
        self._update_rows(
            connection, [(item.id, content_columns(item.content, self.namespace)) for item in changed]
        )

    def _replace_metadata(
        self, connection: Connection, items: Sequence[MemoryItem], patches: Sequence[MemoryPatch]
    ) -> None:
        changed = [item for item, patch in zip(items, patches, strict=True) if patch.replaces_metadata]
        self._update_rows(connection, [(item.id, metadata_columns(item.metadata)) for item in changed])
        facets = self.tables.facets
        statement = delete(facets).where(self.dialect.among(facets.c.memory_id, "names"))
        connection.execute(statement, {"names": self.dialect.list_value([item.id for item in changed])})
        self._insert_facets(connection, changed)

    def _update_rows(self, connection: Connection, changes: Sequence[tuple[str, Row]]) -> None:
        if not changes:
            return
        memories = self.tables.memories
        names = [*changes[0][1], "updated_at"]
        statement = (
            update(memories).where(memories.c.id == bindparam("_id")).values({n: bindparam(n) for n in names})
        )
        rows = [{"_id": record_id, "updated_at": self.now_ms, **columns} for record_id, columns in changes]
        connection.execute(statement, rows)


def _written(drafts: Sequence[MemoryDraft], ids: Sequence[str]) -> list[MemoryItem]:
    return [item_of(draft, record_id) for draft, record_id in zip(drafts, ids, strict=True)]


def _raced(pending: Sequence[MemoryItem], stored: Mapping[str, MemoryItem]) -> dict[str, MemoryItem]:
    """Our id -> the other record that is stored under the same key, or CONFLICT if it is not the same."""
    raced = {}
    for item in pending:
        other = None if item.key is None else stored.get(item.key)
        if other is None or other.id == item.id:
            continue
        if not same_record(other, item):
            raise conflict()
        raced[item.id] = other
    return raced
