"""The Prometheus text of a deployment, read from Redis when it is asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ditto_tasks.keys import Keys
from ditto_tasks.metrics.counts import SEPARATOR
from ditto_tasks.metrics.observing import LATENCY_MS
from ditto_tasks.nodes import ORDINARY_QUEUES
from ditto_tasks.redis_replies import text
from ditto_tasks.sharding import SHARD_QUEUES
from ditto_tasks.worker.inspection import ShardRow, read_shards, read_workers
from ditto_tasks.worker.keys import dead_key

if TYPE_CHECKING:
    from redis import Redis

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Count(NamedTuple):
    """A count of workers: its metric, what it says, and the labels after its name."""

    metric: str
    help: str
    labels: tuple[str, ...] = ()


COUNTS: Final = {
    "calls": Count("ditto_calls", "Tasks that ended", ("node", "outcome")),
    "conflicts": Count("ditto_state_conflicts", "Calls refused as the state had changed", ("node",)),
    "replays": Count("ditto_replays", "Repeated deliveries that changed nothing", ("node",)),
    "unknown_outcomes": Count("ditto_unknown_outcomes", "Calls whose outcome nobody knows", ("node",)),
    "compress_items": Count("ditto_compress_items", "Items that compressions met and left", ("when",)),
    "compress_tokens": Count("ditto_compress_tokens", "Tokens that compressions met and left", ("when",)),
    "selections": Count("ditto_selections", "Selections"),
    "selected_items": Count("ditto_selected_items", "Items selected"),
    "retrieval_candidates": Count("ditto_retrieval_candidates", "Candidates that searches found"),
    "infer_calls": Count("ditto_infer_calls", "Calls of INFER nodes", ("model",)),
    "infer_tokens": Count("ditto_infer_tokens", "Tokens as providers reported them", ("model", "kind")),
    "infer_finish": Count("ditto_infer_finish_reasons", "How samples ended", ("model", "reason")),
    "infer_invalid": Count("ditto_infer_invalid_outputs", "Outputs that were no valid answer", ("model",)),
}


def exposition(client: Redis, keys: Keys, shard_count: int) -> bytes:
    """All metrics of the deployment. Raises the client's errors."""
    registry = CollectorRegistry()
    registry.register(_Deployment(client, keys, shard_count))
    return generate_latest(registry)


class _Deployment(Collector):
    def __init__(self, client: Redis, keys: Keys, shard_count: int) -> None:
        self._client, self._keys, self._shard_count = client, keys, shard_count

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: registering must not ask the server."""
        return ()

    def collect(self) -> Iterator[Metric]:
        rows = read_shards(self._client, self._keys, self._shard_count)
        yield from _shards(rows)
        yield from _queues(self._client, rows)
        workers = GaugeMetricFamily("ditto_workers", "Workers that reported within two leases")
        workers.add_metric((), len(read_workers(self._client, self._keys)))
        yield workers
        stored = self._client.hgetall(self._keys.metrics)
        yield from families({text(name): int(number) for name, number in stored.items()})


def _shards(rows: list[ShardRow]) -> Iterator[Metric]:
    yield _gauge("ditto_shard_depth", "Messages that wait or run", rows, _depth)
    yield _gauge("ditto_shard_oldest_seconds", "Since the oldest message was sent", rows, _oldest_s)
    yield _gauge("ditto_shard_owned", "Whether a worker holds it", rows, _is_owned)
    text = "Times that it came to another worker"
    changes = CounterMetricFamily("ditto_shard_owner_changes", text, labels=["shard"])
    for row in rows:
        changes.add_metric([str(row.shard)], row.moves)
    yield changes


def _depth(row: ShardRow) -> float:
    return row.depth + (row.running_ms is not None)


def _oldest_s(row: ShardRow) -> float:
    return (row.oldest_ms or 0) / 1000


def _is_owned(row: ShardRow) -> float:
    return float(row.owner is not None)


def _gauge(name: str, text: str, rows: list[ShardRow], value: Callable[[ShardRow], float]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=["shard"])
    for row in rows:
        gauge.add_metric([str(row.shard)], value(row))
    return gauge


def _queues(client: Redis, rows: list[ShardRow]) -> Iterator[Metric]:
    depth = GaugeMetricFamily("ditto_queue_depth", "Messages that wait", labels=["queue"])
    dead = GaugeMetricFamily("ditto_dead_letters", "Messages that were given up on", labels=["queue"])
    dead.add_metric([SHARD_QUEUES], sum(row.dead for row in rows))
    for queue in ORDINARY_QUEUES:
        depth.add_metric([queue], client.llen(queue))
        dead.add_metric([queue], client.llen(dead_key(queue)))
    yield from (depth, dead)


def families(stored: dict[str, int]) -> Iterator[Metric]:
    """The counts of workers as metrics; names that this version does not know are left out."""
    found = {
        name: CounterMetricFamily(row.metric, row.help, labels=row.labels) for name, row in COUNTS.items()
    }
    for field, number in sorted(stored.items()):
        name, *labels = field.split(SEPARATOR)
        if name in found and len(labels) == len(COUNTS[name].labels):
            found[name].add_metric(labels, number)
    yield from found.values()
    yield _latency(stored)


def _latency(stored: dict[str, int]) -> Metric:
    family = HistogramMetricFamily("ditto_infer_latency_seconds", "Duration of INFER calls", labels=["model"])
    by_model: dict[str, dict[str, int]] = defaultdict(dict)
    for field, number in stored.items():
        name, *labels = field.split(SEPARATOR)
        if name == "infer_latency" and len(labels) == 2:
            by_model[labels[0]][labels[1]] = number
    for model, numbers in sorted(by_model.items()):
        total_ms = stored.get(SEPARATOR.join(("infer_latency_sum", model)), 0)
        family.add_metric([model], _cumulated(numbers), total_ms / 1000)
    return family


def _cumulated(numbers: dict[str, int]) -> list[tuple[str, float]]:
    buckets, reached = [], 0
    for bound_ms in LATENCY_MS:
        reached += numbers.get(str(bound_ms), 0)
        buckets.append((str(bound_ms / 1000), float(reached)))
    return [*buckets, ("+Inf", float(reached + numbers.get("inf", 0)))]
