"""The bootstep that makes a Celery worker serve shards; it outlives its consumer's reconnects."""

from __future__ import annotations

from typing import Any, Final

from celery import bootsteps
from celery.concurrency.base import BasePool
from celery.concurrency.solo import TaskPool as SoloPool
from celery.utils.log import get_logger
from celery.worker import state

from ditto_tasks.sharding import SHARD_QUEUES, is_shard_queue
from ditto_tasks.worker.children import ProcessPool, known_tasks
from ditto_tasks.worker.service import ShardService
from ditto_tasks.worker.start_checks import check_start

logger = get_logger(__name__)

EX_FAILURE: Final = 1
# A result that can't be stored now is stored later. Otherwise Celery would tell the caller of a committed
# mutation that it failed, as soon as the result server is back.
PATIENT_RESULTS: Final = {
    "result_backend_always_retry": True,
    "result_backend_max_sleep_between_retries_ms": 1_000,
}


class ShardStep(bootsteps.StartStopStep):
    """Takes shards if this worker may; reports the worker's health in any case."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **_options: Any) -> None:  # Celery's edge
        super().__init__(consumer)
        check_start(consumer.app, set(consumer.app.amqp.queues.consume_from))
        self._takes_shards = takes_shards(consumer.app.amqp.queues) and beside_the_loop(consumer.pool)
        consumer.app.conf.update(PATIENT_RESULTS)
        self._service: ShardService | None = None

    def include_if(self, consumer: Any) -> bool:  # Celery's edge
        served = consumer.hub is not None and consumer.conninfo.transport.driver_type == "redis"
        if not served:
            logger.warning("This worker takes no shards: they need Redis and Celery's event loop")
        return served

    def start(self, consumer: Any) -> None:  # Celery's edge
        """Also called after each reconnect: leases, busy shards and the owner id are what they were."""
        if self._service is None:
            self._service = ShardService(consumer, takes_shards=self._takes_shards, on_fatal=stop_worker)
            self._service.start()
        self._service.attach(consumer)

    def stop(self, consumer: Any) -> None:  # Celery's edge
        """For a reconnect, take no message for a while; for good, keep no shard whose task has ended."""
        if self._service is None:
            return
        if consumer.blueprint.state == bootsteps.RUN:  # type: ignore[attr-defined]  # celery-types lacks it
            self._service.detach()
        else:
            self._service.leave()
        if isinstance(consumer.pool, ProcessPool):
            self._service.give_back_all_but(known_tasks(consumer.pool))

    def shutdown(self, _consumer: Any) -> None:  # Celery's edge
        """The pool has stopped: what its tasks did not end, the next owner runs again."""
        if self._service is not None:
            self._service.end()


def takes_shards(queues: Any) -> bool:  # Celery's edge
    """Whether `-Q` (or its absence) says so; SystemExit for the queue of a single shard."""
    chosen = set(queues.consume_from)
    for name in chosen:
        if is_shard_queue(name):
            raise SystemExit(
                f"-Q {name}: a shard is consumed by the worker that holds its lease; "
                f"use -Q {SHARD_QUEUES} to take shards"
            )
    queues.deselect(SHARD_QUEUES)  # a name for taking shards, but no queue to consume
    return SHARD_QUEUES in chosen


def beside_the_loop(pool: BasePool) -> bool:
    """Whether tasks leave the consumer loop free. One that stands still counts as a worker that hangs."""
    if not isinstance(pool, SoloPool):
        return True
    logger.warning("This worker takes no shards: -P solo runs tasks in the loop that has to go on")
    return False


def stop_worker(reason: Exception) -> None:
    """Stop the worker as if by a signal; the consumer loop looks at this flag."""
    logger.critical("The worker stops: %s", reason)
    state.should_stop = EX_FAILURE  # type: ignore[assignment]  # its stub knows only None
