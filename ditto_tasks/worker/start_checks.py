"""What a worker must find before its first task: its extensions' factories, its own nodes' handlers."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ditto_tasks.errors import DittoError
from ditto_tasks.extensions import load_factory
from ditto_tasks.nodes import NodeType
from ditto_tasks.sharding import SHARD_QUEUES


def check_start(app: Any, queues: Collection[str]) -> None:  # Celery's edge
    """Import what a worker of these queues needs, and call nothing of it; SystemExit with the typed text."""
    try:
        for name in app.settings.extensions:
            load_factory(name)
        for row in app.nodes.values():
            if row.handlers is not None and _serves(queues, row):
                app.handler(row)
    except DittoError as error:
        raise SystemExit(str(error)) from error


def _serves(queues: Collection[str], row: NodeType) -> bool:
    return row.queue in queues or (SHARD_QUEUES in queues and (row.mutates or row.many_scopes))
