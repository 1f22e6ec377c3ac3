"""Celery's Redis result backends without a subscription at publish: clients subscribe when they wait."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from celery.backends.redis import RedisBackend, SentinelBackend


class QuietRedisBackend(RedisBackend):
    """Publishing costs no SUBSCRIBE, and a publisher holds no connection that nobody reads."""

    def on_task_call(self, producer: object, task_id: str) -> None:
        """Do nothing where Celery would subscribe to the result."""


class QuietSentinelBackend(SentinelBackend):
    """The same behind Sentinel."""

    def on_task_call(self, producer: object, task_id: str) -> None:
        """Do nothing where Celery would subscribe to the result."""


# for `loader.override_backends`: the scheme of the result URL -> class
BACKENDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "redis": f"{__name__}:{QuietRedisBackend.__name__}",
        "rediss": f"{__name__}:{QuietRedisBackend.__name__}",
        "sentinel": f"{__name__}:{QuietSentinelBackend.__name__}",
    }
)
