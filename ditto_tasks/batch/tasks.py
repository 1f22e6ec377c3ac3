"""The batch tasks: scans on `ditto.batch`, compressions on the scopes' shards, and a run as a task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ditto_tasks.batch.compressing import is_within, sizes_of, would_compress
from ditto_tasks.batch.compression import Compression
from ditto_tasks.batch.models import CompressInput, Row, ScanInput
from ditto_tasks.batch.reading import Read, Turn, batch_of, execution_of, is_beside, reads
from ditto_tasks.batch.running import run_for_a_while
from ditto_tasks.canonical import scope_key
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.task_store import typed_service_errors
from ditto_tasks.errors import ContextError, ServiceError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import from_wire
from ditto_tasks.task import Handler, TaskCall


def scan(call: TaskCall) -> JsonValue:
    """BATCH.SCAN: a row for each scope, until its time is up; the run sends the rest again."""
    request, turn = from_wire(ScanInput, call.wire), Turn(call)
    opened, batch = call.dependencies.context(), batch_of(call)
    execution = execution_of(call, opened)
    run, rows = batch.rows(request.run), list[Row]()
    if len(request.scopes) == 1:
        run.begin_scan(scope_key(request.scopes[0]), call.task_id)
    for scope, read in zip(request.scopes, reads(request.scopes, opened, batch), strict=True):
        rows.append(_scanned(scope_key(scope), read, request, execution))
        if turn.is_over():
            break
        turn.give_way()
    telling = {row.scope: scope for scope, row in zip(request.scopes, rows, strict=False) if row.removed_ids}
    run.own(telling.values())
    run.put(rows, told=call.task_id, beside=is_beside(call), of=telling)
    return {"scopes": len(rows)}


def _scanned(name: str, read: Read, request: ScanInput, execution: ContextExecution) -> Row:
    try:
        with typed_service_errors("BATCH.SCAN"):
            context = read().context
            before = sizes_of(context, execution)
            if is_within(before, request, execution):
                return Row(scope=name, status="unchanged", before=before, after=before)
            if not request.dry_run:
                return Row(scope=name, status="over", before=before)
            return would_compress(name, context, before, request, execution)[0]
    except (ContextError, ServiceError) as problem:
        return Row(scope=name, status="failed", code=problem.code)


def compress(call: TaskCall) -> JsonValue:
    """BATCH.COMPRESS: each scope once, however often this is delivered, until its time is up."""
    request = from_wire(CompressInput, call.wire)
    rows = batch_of(call).rows(request.run)
    done = Compression(call, request, rows).run()
    telling = {name: scope for name, (scope, row) in done.items() if row.removed_ids}
    rows.put((row for _, row in done.values()), told=call.task_id, beside=is_beside(call), of=telling)
    return {"scopes": len(done)}


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    {"BATCH.SCAN": scan, "BATCH.COMPRESS": compress, "BATCH.RUN": run_for_a_while}
)
