"""Waiting for results by blocking: subscribe, look whether it is there already, then listen."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from ditto_tasks.celery import DittoCelery
from ditto_tasks.client.connections import CONNECTION_ERRORS, LOOK_AGAIN_S, RECONNECT_S
from ditto_tasks.client.protocol import Finished, finished
from ditto_tasks.redis_replies import text

if TYPE_CHECKING:
    from redis.client import PubSub

LONGEST_S: Final = 365 * 86_400.0  # "for ever", in a form that socket calls take


class ResultReader:
    """Reads results of an application's backend. Nothing is held between calls."""

    def __init__(self, app: DittoCelery) -> None:
        self._app = app

    def look(self, task_id: str) -> Finished | None:
        """The end of a task if it has ended."""
        return self.decode(self._backend.get(self.key(task_id)))

    def wait(self, task_id: str, timeout_s: float | None) -> Finished:
        """The end of a task; TimeoutError after `timeout_s`. A lost connection is made again."""
        end_at = time.monotonic() + (LONGEST_S if timeout_s is None else timeout_s)
        while True:
            try:
                end = self._listen(task_id, end_at)
            except CONNECTION_ERRORS as error:
                if time.monotonic() + RECONNECT_S > end_at:
                    raise TimeoutError("the result server could not be asked in time") from error
                time.sleep(RECONNECT_S)
                continue
            if end is None:
                raise TimeoutError("the task has not ended yet")
            return end

    def _listen(self, task_id: str, end_at: float) -> Finished | None:
        with closing(self._backend.client.pubsub()) as subscription:
            subscription.subscribe(self.key(task_id))
            subscription.get_message(timeout=_left(end_at, LOOK_AGAIN_S))  # it stands: nothing is missed now
            while (end := self.look(task_id)) is None:
                if (end := self._heard(subscription, end_at)) is not None:
                    break
                if time.monotonic() >= end_at:
                    return None
            return end

    def _heard(self, subscription: PubSub, end_at: float) -> Finished | None:
        """The end that is published within a while."""
        until = min(end_at, time.monotonic() + LOOK_AGAIN_S)
        while (left := until - time.monotonic()) > 0:
            message = subscription.get_message(timeout=left)
            if message is not None and (end := self.decode(message["data"])) is not None:
                return end
        return None

    def decode(self, stored: object) -> Finished | None:
        """The end that a stored or published record tells of; a subscription's confirmation tells of none."""
        if not isinstance(stored, (bytes, str)):
            return None
        return finished(self._backend.decode_result(stored))

    def key(self, task_id: str) -> str:
        """Where a task's result is stored, and the channel on which it is published."""
        return text(self._backend.get_key_for_task(task_id))

    @property
    def _backend(self) -> Any:  # Celery's backend is one a thread
        return self._app.backend


def _left(end_at: float, at_most_s: float) -> float:
    return min(max(0.0, end_at - time.monotonic()), at_most_s)
