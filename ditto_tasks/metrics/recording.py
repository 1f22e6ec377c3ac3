"""Celery's signals to counts, after a task has ended and its result is stored, and to what is at work."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from celery import signals, states

from ditto_tasks.metrics.counts import Counts
from ditto_tasks.metrics.observing import Ended, counts_of
from ditto_tasks.presence import Presence
from ditto_tasks.task import Reply

OF_A_BATCH: Final = "BATCH."  # what the names of tasks begin with that give way to all others
QUOTING: Final = "extractive"  # what answers where no model is configured


class Recorder:
    """Counts the tasks of one application in this process; receivers are weak and go with it."""

    def __init__(self, app: object, counts: Counts, presence: Presence, *, default_model: str | None) -> None:
        self._app = app
        self._counts = counts
        self._presence = presence
        self._default_model = default_model or QUOTING
        self._started: dict[str, float] = {}

    def connect(self) -> None:
        """Listen. Processes that run no tasks never hear anything."""
        signals.task_prerun.connect(self._on_start)
        signals.task_postrun.connect(self._on_end)
        for stopping in (signals.worker_shutdown, signals.worker_process_shutdown):
            stopping.connect(self._on_stop)

    def _on_start(self, task_id: str = "", task: Any = None, **_about: object) -> None:
        self._started[task_id] = time.monotonic()
        if not task.name.startswith(OF_A_BATCH):
            self._presence.begin(task_id)

    def _on_end(
        self,
        task_id: str = "",
        task: Any = None,  # Celery's edge
        kwargs: Mapping[str, object] | None = None,
        retval: object = None,
        state: str | None = None,
        **_about: object,
    ) -> None:
        started_s = self._started.pop(task_id, None)
        if task is not None and not task.name.startswith(OF_A_BATCH):
            self._presence.end(task_id)
        if task is None or task.app is not self._app or started_s is None:
            return
        if state in (states.SUCCESS, states.FAILURE):
            took_ms = int((time.monotonic() - started_s) * 1000)
            error = retval if isinstance(retval, BaseException) else None
            value = retval.value if isinstance(retval, Reply) else None
            ended = Ended(task.name, value, error, took_ms, self._model(kwargs or {}))
            self._counts.add_all(counts_of(ended))

    def _on_stop(self, **_about: object) -> None:
        self._counts.flush()

    def _model(self, wire: Mapping[str, object]) -> str:
        asked = wire.get("model")
        name = asked.get("model") if isinstance(asked, Mapping) else None
        return name if isinstance(name, str) else self._default_model
