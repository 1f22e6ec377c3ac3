"""Celery's events without its endless tries: a heartbeat that can't be sent must not hold up the worker.

Celery sends heartbeats in the consumer's loop, and tries again until the broker answers. Meanwhile the loop
does nothing else, so that a worker whose broker answers nothing does not even hear that it has to stop.
"""

from __future__ import annotations

from typing import Any

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher


class OneTryDispatcher(EventDispatcher):
    """An event that can't be sent is kept, as Celery keeps those of an outage, and sent after a reconnect."""

    def send(self, type: str, *args: Any, **fields: Any) -> Any:  # noqa: A002 -- Celery's signature
        return super().send(type, *args, **{**fields, "retry": False})


class OneTryEvents(Events):
    """What `app.events` makes."""

    dispatcher_cls = "ditto_tasks.worker.heartbeats:OneTryDispatcher"
