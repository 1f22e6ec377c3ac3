"""The batch tasks: scans on `ditto.batch`, compressions on the scopes' shards, and a run as a task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, cast

from ditto_tasks.batch.compressing import compressed, is_within, removed_ids, sizes_of
from ditto_tasks.batch.models import CompressInput, Row, ScanInput
from ditto_tasks.batch.opening import OpenBatch
from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.batch.running import run_for_a_while
from ditto_tasks.canonical import scope_key
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import Context
from ditto_tasks.context.opening import OpenContext
from ditto_tasks.context.task_store import (
    MutationRules,
    MutationStore,
    ReadStore,
    typed_errors,
    typed_service_errors,
)
from ditto_tasks.context.tasks import operation_of
from ditto_tasks.errors import ContextError, DittoError, ServiceError, StateBackendError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope, from_wire
from ditto_tasks.state.base import ContextStateStore, Outcome, StoredContext
from ditto_tasks.state.encoding import decode_record
from ditto_tasks.state.redis import RedisContextStore
from ditto_tasks.task import Handler, TaskCall

GIVE_WAY_S: Final = 0.000_05  # between scopes: a thread that computes on gives others its GIL every 5 ms only
NOT_OF_THE_SCOPE: Final = ("FENCED", "STATE_OUTCOME_UNKNOWN")  # the shard has the call run again


def scan(call: TaskCall) -> JsonValue:
    """BATCH.SCAN: a row for each scope, until its time is up; the run sends the rest again."""
    request = from_wire(ScanInput, call.wire)
    opened, batch = call.dependencies.context(), _batch(call)
    execution = _execution(call, opened)
    ends_s = time.monotonic() + call.dependencies.settings.runtime.batch.chunk_ms / 1000
    rows: list[Row] = []
    for scope, read in zip(request.scopes, _reads(request.scopes, opened, batch), strict=True):
        rows.append(_scanned(scope, read, request, execution))
        if time.monotonic() >= ends_s:
            break
        time.sleep(GIVE_WAY_S)
    run = batch.rows(request.run)
    telling = [scope for scope, row in zip(request.scopes, rows, strict=False) if row.removed_ids]
    run.own(telling)
    run.put(rows, told=call.task_id, of=telling)
    return {"scopes": len(rows)}


Read = Callable[[], StoredContext | None]


def _reads(scopes: Sequence[Scope], opened: OpenContext, batch: OpenBatch) -> Iterator[Read]:
    """How to get each scope's context. Our own store's are read many at a time."""
    store = _store(opened.services.state_store)
    if not isinstance(store, RedisContextStore):
        one_by_one = ReadStore(store)
        yield from (partial(one_by_one.get, scope) for scope in scopes)
        return
    with typed_errors():
        for record in batch.index().records(scopes):
            yield partial(_decoded, record)


def _decoded(record: bytes | None) -> StoredContext | None:
    return None if record is None else decode_record(record)


def _scanned(scope: Scope, read: Read, request: ScanInput, execution: ContextExecution) -> Row:
    scope_hash = scope_key(scope)
    try:
        with typed_service_errors("BATCH.SCAN"):
            context = _present(read()).context
            before = sizes_of(context, execution)
            if is_within(before, request, execution):
                return Row(scope=scope_hash, status="unchanged", before=before, after=before)
            if not request.dry_run:
                return Row(scope=scope_hash, status="over", before=before)
            return _row(scope_hash, context, compressed(context, request, execution), execution)
    except (ContextError, ServiceError) as problem:
        return Row(scope=scope_hash, status="failed", code=problem.code)


def compress(call: TaskCall) -> JsonValue:
    """BATCH.COMPRESS: one scope, once, however often this is delivered."""
    request = from_wire(CompressInput, call.wire)
    rows, scope_hash = _batch(call).rows(request.run), scope_key(request.scope)
    row, planned = rows.planned(scope_hash)
    if row is None:
        row = _Compression(call, request, rows, scope_hash).run(planned)
    rows.put([row], told=call.task_id, of=[request.scope] if row.removed_ids else [])
    return {"status": row.status}


@dataclass(frozen=True, slots=True)
class _Compression:
    """One delivery of one compression."""

    call: TaskCall
    request: CompressInput
    rows: BatchRows
    scope_hash: str

    def run(self, planned: Row | None) -> Row:
        try:
            with typed_service_errors(self.call.node):
                return self._run(planned)
        except StateBackendError:
            raise  # of the store and not of the scope: the shard has the call run again
        except DittoError as problem:
            if problem.code in NOT_OF_THE_SCOPE:
                raise
            return Row(scope=self.scope_hash, status="failed", code=problem.code)

    def _run(self, planned: Row | None) -> Row:
        opened = self.call.dependencies.context()
        store = _mutation_store(self.call, self.request, opened)
        recorded = store.recall(self.request.scope) if planned or self.call.redelivered else None
        if recorded is None and self.call.refuse:
            recorded = store.refuse(self.request.scope, self.call.refuse)
        if recorded is not None:
            return self._recorded(recorded, planned)
        return self._apply(store, _execution(self.call, opened))

    def _apply(self, store: MutationStore, execution: ContextExecution) -> Row:
        stored = _present(store.get(self.request.scope))
        before = sizes_of(stored.context, execution)
        if is_within(before, self.request, execution):
            return Row(scope=self.scope_hash, status="unchanged", before=before, after=before)
        after = compressed(stored.context, self.request, execution)
        row = _row(self.scope_hash, stored.context, after, execution)
        self.rows.plan(row, self.request.scope)
        store.compare_and_set(self.request.scope, stored.version, after)
        outcome = cast("Outcome", store.outcome)
        if outcome.replayed:
            return self._recorded(outcome, None)
        self._count(row)
        return row.model_copy(update={"status": "compressed"})

    def _recorded(self, outcome: Outcome, planned: Row | None) -> Row:
        """What an earlier delivery came to; its sizes are those that it planned."""
        if outcome.code is not None:
            return Row(scope=self.scope_hash, status="failed", code=outcome.code)
        if planned is None or planned.status != "would-compress":
            return Row(scope=self.scope_hash, status="compressed")
        return planned.model_copy(update={"status": "compressed"})

    def _count(self, row: Row) -> None:
        for when, sizes in (("before", row.before), ("after", row.after)):
            if sizes is not None:
                self.call.count(f"compress_items|{when}", sizes.items)
                self.call.count(f"compress_tokens|{when}", sizes.tokens or 0)


def _row(scope_hash: str, before: Context, after: Context, execution: ContextExecution) -> Row:
    return Row(
        scope=scope_hash,
        status="would-compress",
        before=sizes_of(before, execution),
        after=sizes_of(after, execution),
        removed_ids=removed_ids(before, after),
    )


def _present(stored: StoredContext | None) -> StoredContext:
    if stored is None:
        raise ContextError("CONTEXT_NOT_FOUND", "the scope has no context")
    return stored


def _mutation_store(call: TaskCall, request: CompressInput, opened: OpenContext) -> MutationStore:
    store = opened.services.state_store if request.renew_ttl else opened.unrenewing_store
    rules = MutationRules(timeout_ms=opened.mutation_timeout_ms)
    return MutationStore(_store(store), operation_of(call), rules)


def _store(store: ContextStateStore | None) -> ContextStateStore:
    if store is None:
        raise StateBackendError("STATE_STORE_UNAVAILABLE", "no state store is configured")
    return store


def _execution(call: TaskCall, opened: OpenContext) -> ContextExecution:
    return ContextExecution(opened.policy, opened.services, call.token)


def _batch(call: TaskCall) -> OpenBatch:
    return cast("OpenBatch", call.dependencies.domain("batch"))


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {"BATCH.SCAN": scan, "BATCH.COMPRESS": compress, "BATCH.RUN": run_for_a_while}
)
