"""Deliveries that tell `inspect`, and so Flower's pages, no more of a task than its events do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from celery import Task
from celery.worker.request import Request

if TYPE_CHECKING:
    from celery.worker.request import _InfoDict

# by name: Celery imports them where a worker needs them
QUIET_REQUEST: Final = "ditto_tasks.worker.request:QuietRequest"
QUIET_TASK: Final = "ditto_tasks.worker.request:QuietTask"


class HearsOfStarts(Protocol):
    """A channel that wants to know when the pool has picked a task up."""

    def on_accepted(self, task_id: str) -> Mapping[str, float]: ...


class QuietRequest(Request):
    """Celery's own answers `inspect active` and `inspect reserved` with the arguments as they are."""

    def info(self, safe: bool = False) -> _InfoDict:  # noqa: ARG002 -- Celery's signature
        """The delivery with the representation that its sender redacted, whatever was asked for."""
        return super().info(safe=True)

    def on_accepted(self, pid: Any, time_accepted: float) -> None:  # Celery's edge
        """A thread picks the task up, or a child did: its shard hears of it first, in this process."""
        channel = self.message.channel
        if hasattr(channel, "on_accepted"):  # `isinstance` with a protocol takes ten times as long
            # a pool of threads hands this very dict to the task; one of processes has sent it already
            self.request_dict.update(cast("HearsOfStarts", channel).on_accepted(self.id))
        super().on_accepted(pid, time_accepted)


class QuietTask(Task):  # type: ignore[type-arg]  # celery's class is generic in its stubs only
    """The base of every task of this application, Celery's own included."""

    abstract = True
    Request = QUIET_REQUEST
