"""Ends of runs of graphs and loops: whoever waits is told the one of the newest attempt, and no older one."""

from __future__ import annotations

from typing import Final

from celery import states

from ditto_tasks.errors import PipelineError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.pipelines.base import EndStore
from ditto_tasks.pipelines.outcomes import error_from_wire

STOPPED: Final = ("failed", "cancelled")  # states of runs that can go on


def tell_end(
    store: EndStore, run: str, resumes: int, *, receipt: JsonObject, error: JsonObject | None
) -> bool:
    """Tell of a run's error, or else give the receipt: outputs and states stay where they are.

    False if the run was resumed since: that end is none any more.
    """
    if error is None:
        return store.store_end(run, receipt, states.SUCCESS, resumes)
    return store.store_end(run, error_from_wire(error), states.FAILURE, resumes)


def not_resumable() -> PipelineError:
    """The error for an answer or a flow that is to be resumed."""
    message = "an answer or a flow that has ended cannot go on; start it anew"
    return PipelineError("RUN_NOT_RESUMABLE", message)
