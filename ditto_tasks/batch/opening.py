"""What a worker's batch tasks work with: the run's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings
from ditto_tasks.state.index import ScopeIndex
from ditto_tasks.state.redis import StateClient, open_state_client

if TYPE_CHECKING:
    from redis import Redis


@dataclass(frozen=True)
class OpenBatch:
    """Clients of the broker's and of the contexts' database, which connect when first used."""

    settings: Settings
    broker: Redis
    contexts: StateClient

    def rows(self, run: str) -> BatchRows:
        """The rows of a run."""
        return BatchRows(self.broker, deployment=self.settings.connections.deployment, run=run)

    def index(self) -> ScopeIndex:
        """The scopes that have a context."""
        return ScopeIndex(self.contexts, key_prefix=self.settings.context.cache.key_prefix)

    def close(self) -> None:
        self.broker.close()
        self.contexts.close()


def open_batch(settings: Settings, services: Mapping[str, object]) -> OpenBatch:  # noqa: ARG001 -- as every domain
    """Open the domain; an application adds nothing to it."""
    broker, contexts = settings.connections.broker_url, settings.connections.context_redis_url
    if broker is None or contexts is None:
        name = "DITTO_BROKER_URL" if broker is None else "DITTO_WORKER_CONTEXT_REDIS_URL"
        raise SettingsError("INVALID_SETTINGS", f"{name}: batch runs need it", {"path": name})
    opened = cast("Redis", open_state_client(broker.get_secret_value()))  # kombu's brokers are no clusters
    return OpenBatch(settings, opened, open_state_client(contexts.get_secret_value()))
