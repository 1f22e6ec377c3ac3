"""Celery's Redis result backends without subscriptions at publish: whoever waits subscribes.

Celery subscribes to each result when its task is sent, and once more for every member of a chord.
Publishers would hold connections that nobody reads; in workers, one subscription a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from celery.backends import redis


class WaitingConsumer(redis.ResultConsumer):  # type: ignore[name-defined,misc]  # unknown to celery-types
    """Subscribes to a result when it is waited for, and not before."""

    def consume_from(self, task_id: str) -> None:
        """Do nothing where Celery would subscribe although nobody waits."""

    def on_wait_for_pending(self, result: Any, **kwargs: Any) -> None:  # a result, or a set of them
        """Subscribe, and then look at what is stored already, as Celery does."""
        for waited in _members(result):
            super().consume_from(waited.id)
        super().on_wait_for_pending(result, **kwargs)


class _Quiet:
    """What both backends do otherwise than Celery's."""

    ResultConsumer: Any = WaitingConsumer
    client: Any  # of redis-py
    expires: int | None

    def on_task_call(self, producer: object, task_id: str) -> None:
        """Do nothing where Celery would subscribe to the result."""

    def _set(self, key: str, value: bytes, expires: int | None = None) -> None:
        with self.client.pipeline() as pipe:  # without SETEX, of which redis-py warns
            pipe.set(key, value, ex=(self.expires if expires is None else expires) or None)
            pipe.publish(key, value)
            pipe.execute()


class QuietRedisBackend(_Quiet, redis.RedisBackend):
    """Publishing costs no SUBSCRIBE."""


class QuietSentinelBackend(_Quiet, redis.SentinelBackend):
    """The same behind Sentinel."""


def _members(result: Any) -> Iterable[Any]:  # Celery's results
    members = getattr(result, "results", None)
    return (result,) if members is None else (one for member in members for one in _members(member))
