"""Whose a run is: noted before it is recorded, so that an erasure finds it and nobody else may look at it."""

from __future__ import annotations

from ditto_tasks.admission import Admission
from ditto_tasks.canonical import scope_key
from ditto_tasks.models import Scope
from ditto_tasks.sharding import shard_of, shard_queue
from ditto_tasks.tenants import tenant_of


def run_shard(run: str, scope: Scope | None, shards: int) -> int:
    """Whose owner looks after the run: the scope's shard, any one without a scope."""
    return shard_of(run if scope is None else scope_key(scope.wire_form()), shards)


def run_admission(run: str, scope: Scope | None, *, shard: int, ttl_ms: int) -> Admission:
    """The admission of a run, which is refused where its session was erased or its shard is full."""
    return Admission(
        task_id=run,
        root_id=run,
        shard_queue=None if scope is None else shard_queue(shard),
        session=None if scope is None else scope.session_id,
        tenant=None if scope is None else tenant_of(scope.wire_form()),
        ttl_ms=ttl_ms,
        in_canvas=True,
    )
