"""From a shard's message to a Celery task and back, in place of the channel that other queues have."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from celery.utils.log import get_logger
from celery.worker import state
from kombu.transport.virtual.base import Message

from ditto_tasks.keys import Keys, stop_marks
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.burial import farewell
from ditto_tasks.worker.dead_letters import ReadingChannel, letter_entry, tell_caller
from ditto_tasks.worker.guard import open_envelope
from ditto_tasks.worker.keys import EPOCH_HEADER, FREE_HEADER, REFUSE_HEADER
from ditto_tasks.worker.peeks import Peeks
from ditto_tasks.worker.scripts import Settle, ShardScripts
from ditto_tasks.worker.shards import Delivery, Shards

if TYPE_CHECKING:
    from redis import Redis

logger = get_logger(__name__)


class ShardChannel(ReadingChannel):
    """The channel of the messages of all shards: settles each through the fenced script.

    A shard has one message in work, but a task that overstayed may settle after its successor: so
    messages are told apart by their delivery tags, which are this process's own.
    """

    def __init__(
        self, shards: Shards, client: Redis, keys: Keys, on_state_unreachable: Callable[[], None]
    ) -> None:
        self._shards = shards
        self._client = client
        self._keys = keys
        self._on_state_unreachable = on_state_unreachable
        self._deliveries: dict[str, Delivery] = {}
        self._waiting: dict[str, Delivery] = {}  # by task id
        self._free: dict[str, float] = {}  # task id -> when nothing had cancelled it

    def open(self, delivery: Delivery) -> Message:
        """The message of a delivery, decoded behind the guard, with what its task must know of the shard."""
        envelope = open_envelope(delivery.taken.message, shard_queue(delivery.shard))
        envelope["headers"][EPOCH_HEADER] = delivery.epoch
        if delivery.refuse is not None:
            envelope["headers"][REFUSE_HEADER] = delivery.refuse
        if delivery.taken.tried:
            envelope["properties"]["delivery_info"]["redelivered"] = True
        message = self.read(envelope)
        delivery.task_id = message.headers["id"]
        self._deliveries[cast("str", message.delivery_tag)] = delivery
        if delivery.started_s is None:
            self._wait_for_thread(delivery, message.headers["id"], message.headers.get("root_id"))
        return message

    def _wait_for_thread(self, delivery: Delivery, task_id: str, root_id: str | None) -> None:
        """Let the call that marks its start ask for its cancellation, too, so that the task need not."""
        if root_id in (None, task_id):  # else the task's own question notes it as its root's
            delivery.marks = stop_marks(self._keys, task_id, task_id)
            delivery.on_free = lambda: self._free.update({task_id: time.monotonic()})
        self._waiting[task_id] = delivery

    def on_accepted(self, task_id: str) -> Mapping[str, float]:
        """The pool picks a task up: if it had to wait for that, it counts as started from now on.

        What comes back is to be among its headers.
        """
        delivery = self._waiting.pop(task_id, None)
        if delivery is not None:
            self._shards.mark_started(delivery)
        free_s = self._free.pop(task_id, None)
        return {} if free_s is None else {FREE_HEADER: free_s}

    def next_waiting(self) -> Delivery | None:
        """The delivery that has waited longest for a thread, which then counts as started."""
        for task_id in self._waiting:  # in the order in which the pool got them
            return self._waiting.pop(task_id, None)
        return None

    @property
    def in_work(self) -> int:
        """How many messages of shards the pool has."""
        return len(self._deliveries)

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:  # noqa: ARG002 -- kombu's signature
        self._settle(delivery_tag, "ack")

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """A task gives its message back only while the state store is unreachable."""
        if requeue:
            self._on_state_unreachable()
        self._settle(delivery_tag, "back" if requeue else "ack")

    def give_back_all_but(self, task_ids: Collection[str]) -> None:
        """Put the messages of all other tasks back."""
        for tag, delivery in list(self._deliveries.items()):
            if delivery.task_id not in task_ids:
                self._waiting.pop(delivery.task_id or "", None)
                self._settle(tag, "back")

    def _settle(self, delivery_tag: str, how: Settle) -> None:
        delivery = self._deliveries.pop(delivery_tag, None)
        if delivery is not None:  # else it was given back
            self._shards.settle(delivery, how)

    @contextmanager
    def conn_or_acquire(self) -> Iterator[Redis]:
        """A client of the broker, as kombu's channels lend it."""
        yield self._client


class ConsumerOutlet:
    """Starts the tasks of shards in the worker's pool, for as long as its consumer is connected."""

    def __init__(
        self, consumer: Any, channel: ShardChannel, peeks: Peeks, scripts: ShardScripts
    ) -> None:  # Celery's
        self._consumer = consumer
        self._channel = channel
        self._peeks = peeks
        self._scripts = scripts
        self._handle = immediate_handler(consumer)

    def has_free_thread(self) -> bool:
        return bool(len(state.reserved_requests) < self._consumer.pool.num_processes)

    def next_to_start(self) -> Delivery | None:
        """Only while the pool has nothing but messages of shards: otherwise the thread may do other work."""
        others = len(state.reserved_requests) - self._channel.in_work
        return None if others > 0 else self._channel.next_waiting()

    def deliver(self, delivery: Delivery) -> None:
        self._handle(self._channel.open(delivery))

    def bury(self, delivery: Delivery) -> None:
        message, taken = self._channel.open(delivery), delivery.taken
        logger.error("Shard %d: a message that %d workers died of is given up", delivery.shard, taken.deaths)
        try:
            tell_caller(self._consumer.app, message, farewell(self._consumer.app, message, taken.deaths))
        except Exception as exc:  # noqa: BLE001 -- an errback that can't be sent must not keep the shard from going on
            logger.error("Not everybody could be told of a dead letter: %s", type(exc).__name__)
        entry = letter_entry(message, taken.message, taken.deaths)
        self._scripts.bury(delivery.shard, delivery.epoch, taken.seq, entry)
        message.ack()

    def watch(self, shard: int) -> None:
        self._consumer.call_soon(self._peeks.watch, shard)

    def unwatch(self, shard: int) -> None:
        self._consumer.call_soon(self._peeks.unwatch, shard)

    def close(self) -> None:
        """Hear of no more messages. In the loop's thread."""
        self._peeks.close()


def immediate_handler(consumer: Any) -> Callable[[Message], None]:  # Celery's edge
    """Celery's own handler of task messages, whose acknowledgements do not wait for the event loop.

    The loop stands still while it reconnects and while a warm stop waits for the pool; the shards go on.
    """
    twin = copy.copy(consumer)
    twin.call_soon_ack = lambda settle, *args: settle(*args)
    twin._maximum_prefetch_restored = True  # shards take no part in the prefetch count
    handler: Callable[[Message], None] = twin.create_task_handler()
    return handler
