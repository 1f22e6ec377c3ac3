"""What the commands that look into a deployment share: its application, and a client of its broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.errors import SettingsError
from ditto_tasks.keys import Keys
from ditto_tasks.nodes import ORDINARY_QUEUES
from ditto_tasks.settings import load_settings
from ditto_tasks.sharding import shard_queue
from ditto_tasks.state.redis import open_state_client, translated_errors
from ditto_tasks.worker.addresses import broker_address
from ditto_tasks.worker.inspection import read_deployment, read_shard_count
from ditto_tasks.worker.leases import check_deployment

if TYPE_CHECKING:
    from redis import Redis


@dataclass(frozen=True)
class OpenDeployment:
    """A deployment as its operator sees it."""

    app: DittoCelery
    broker: Redis
    keys: Keys

    @property
    def shard_count(self) -> int:
        """As the deployment has it; before it ever ran, as the settings say."""
        return read_shard_count(self.broker, self.keys) or self.app.settings.runtime.shards.count

    def queues(self) -> list[str]:
        """Every queue of tasks."""
        return [*(shard_queue(shard) for shard in range(self.shard_count)), *ORDINARY_QUEUES]

    def check_shard(self, shard: int) -> None:
        if shard >= self.shard_count:
            raise SettingsError("UNKNOWN_SHARD", f"the deployment has shards 0 to {self.shard_count - 1}")


@contextmanager
def open_deployment() -> Iterator[OpenDeployment]:
    """The deployment that the settings name; a broker's errors end as one typed line."""
    app = create_app(load_settings())
    client = cast("Redis", open_state_client(broker_address(app.conf)))  # kombu's brokers are no clusters
    keys = Keys(app.settings.connections.deployment)
    try:
        with translated_errors():
            check_deployment(keys.deployment, read_deployment(client))
            yield OpenDeployment(app, client, keys)
    finally:
        client.close()
        app.close()
