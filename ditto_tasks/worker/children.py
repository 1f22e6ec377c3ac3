"""What a pool of processes knows of its tasks when its worker reconnects or stops."""

from __future__ import annotations

from typing import Any

from celery.concurrency.prefork import TaskPool as ProcessPool

__all__ = ["ProcessPool", "forget_unsent", "known_tasks"]


def forget_unsent(pool: ProcessPool) -> None:
    """Forget the tasks that no child has got; in place of the pool's own `flush`.

    That one forgets also those that a child has got and not yet confirmed. The child runs them all the
    same, and at a stop nobody reads their results, for which a child waits 30 s before it ends.
    """
    processes = _processes(pool)
    if processes is None:
        return
    jobs = tuple(processes._cache.values())
    for job in jobs:
        writer = job._writer() if hasattr(job, "_writer") else None
        if writer in processes._active_writers:  # half of a message would take the next one for its rest
            processes._flush_writer(job._write_to, writer)
    for job in jobs:
        if not (job._accepted or (job._write_to and job._write_to._is_alive())):
            job.discard()
    processes.outbound_buffer.clear()


def known_tasks(pool: ProcessPool) -> frozenset[str]:
    """The ids of the tasks of whose end the pool will tell."""
    processes = _processes(pool)
    jobs = () if processes is None else tuple(processes._cache.values())
    return frozenset(job.correlation_id for job in jobs)


def _processes(pool: Any) -> Any:  # Celery's and billiard's pools; None once it has stopped
    return pool._pool
