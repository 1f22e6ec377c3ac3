"""Runs of any kind, stopped and resumed by their ids."""

from __future__ import annotations

from ditto_tasks.celery import DittoCelery
from ditto_tasks.client.graphs import cancel_run, resume_run
from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.ends import STOPPED, not_resumable
from ditto_tasks.pipelines.graph_runs import run_not_found
from ditto_tasks.pipelines.run_views import RunView


def view_of(app: DittoCelery, run_id: str) -> RunView:
    """A run as it stands; RUN_NOT_FOUND where there is none."""
    found = app.run_records.load(run_id)
    if found is None:
        raise run_not_found()
    return found


def cancel(app: DittoCelery, run: RunView) -> None:
    """End a run as cancelled unless it has ended; what is at work is asked to stop."""
    cancel_run(app, run.id)


def resume(app: DittoCelery, run: RunView, timeout_ms: int | None = None) -> None:
    """Let a graph or loop that failed or was cancelled go on from what was settled, under a new deadline.

    RUN_NOT_RESUMABLE for an answer or a flow: workers take those up themselves, until they end for good.
    RUN_NOT_STOPPED for a run that is running or done.
    """
    if run.kind in ("answer", "flow"):
        raise not_resumable()
    if run.state not in STOPPED:
        raise PipelineError("RUN_NOT_STOPPED", f"the run is {run.state}", {"state": run.state})
    resume_run(app, run.id, timeout_ms)
