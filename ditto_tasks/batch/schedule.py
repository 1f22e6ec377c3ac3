"""The batch tasks as rows of a node table, and the entry of Celery's beat."""

from __future__ import annotations

from typing import Any, Final

from celery.schedules import crontab

from ditto_tasks.nodes import NodeType
from ditto_tasks.settings import Settings

# Tasks, and no nodes: they have no place in a graph, and clients no methods for them.
BATCH_NODES: Final = (
    NodeType("BATCH.SCAN", "BATCH", "batch.models:ScanInput"),
    NodeType("BATCH.COMPRESS", "BATCH", "batch.models:CompressInput", mutates=True, many_scopes=True),
    NodeType("BATCH.RUN", "BATCH", "batch.models:RunInput"),
)


def beat_schedule(settings: Settings) -> dict[str, dict[str, Any]]:  # Celery's edge
    """The nightly run, if the settings have one."""
    nightly = settings.runtime.batch.nightly
    if nightly is None:
        return {}
    wire = nightly.model_dump(by_alias=True, exclude={"hour"}, exclude_none=True)
    at = crontab(hour=str(nightly.hour), minute="0")
    return {"ditto-nightly-compress": {"task": "BATCH.RUN", "schedule": at, "kwargs": wire}}
