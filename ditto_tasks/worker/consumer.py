"""Celery's consumer with other answers to messages that can't be run: dead letters, no body in the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from celery.app.task import Context
from celery.utils.log import get_logger
from celery.worker.consumer import Consumer
from kombu.exceptions import ContentDisallowed, KombuError

from ditto_tasks.errors import DeadLettered
from ditto_tasks.pipelines.steps import step_of
from ditto_tasks.sharding import is_shard_queue
from ditto_tasks.worker.children import ProcessPool, forget_unsent
from ditto_tasks.worker.guard import REFUSED, SIZE
from ditto_tasks.worker.keys import GRAPH_HEADER, dead_key

logger = get_logger(__name__)

DEAD_LETTERS_KEPT: Final = 10_000  # a queue; the oldest go first, so that garbage can't fill the server
CANVAS_KEYS: Final = frozenset({"callbacks", "errbacks", "chain", "chord"})

REASONS: Final[Mapping[str, str]] = {
    "UNKNOWN_TASK": "the worker that took the message has no such node: start all workers of its queue "
    "with -A on the application that has it, and send the call again",
}


class Message(Protocol):
    """What is used of kombu's message."""

    headers: dict[str, Any]
    body: bytes | str | None
    delivery_info: dict[str, Any]
    channel: Any
    payload: Any

    def ack(self) -> None: ...


class GuardedConsumer(Consumer):
    """What can't be run goes to `<queue>:dead`, its caller is told, and the worker goes on."""

    def create_task_handler(self: Any, *args: Any, **kwargs: Any) -> Callable[[Any], None]:  # Celery's edge
        self.pool._does_debug = False  # its debug line would show arguments
        handle = super().create_task_handler(*args, **kwargs)
        broker_errors = self.connection_errors + self.channel_errors

        def on_task_received(message: Any) -> None:  # kombu's message
            code = refusal_code(message, self.strategies)
            if code is not None:
                self.bury(message, code)
                return
            try:
                handle(message)
            except broker_errors:
                raise  # the consumer reconnects, and the message comes again
            except Exception as exc:  # noqa: BLE001 -- one message must not end the worker
                logger.error("A message could not be started: %s", type(exc).__name__)
                self.bury(message, "UNPROCESSABLE")

        return on_task_received

    def on_close(self: Any) -> None:  # Celery's edge
        """Before a reconnect or a stop, forget what the broker will deliver again."""
        if isinstance(self.pool, ProcessPool):
            pool: Any = self.pool  # whose `flush` Celery itself sets
            pool.flush = partial(forget_unsent, pool)
        super().on_close()

    def on_decode_error(self, message: Any, _exc: Exception) -> None:  # kombu's message
        self.bury(message, "BAD_BODY")

    def on_invalid_task(self, _body: object, message: Any, _exc: Exception) -> None:  # kombu's message
        self.bury(message, "INVALID_TASK")

    def on_unknown_task(self, _body: object, message: Any, _exc: Exception) -> None:  # kombu's message
        self.bury(message, "UNKNOWN_TASK")

    def on_unknown_message(self, _body: object, message: Any) -> None:  # kombu's message
        self.bury(message, "NO_TASK")

    def bury(self, message: Message, code: str) -> None:
        """Move a message to its queue's dead letters (code and size only), tell its caller, acknowledge."""
        queue, task_id = message.delivery_info["routing_key"], message.headers.get("id")
        size = message.headers.get(SIZE, len(message.body or b""))
        logger.warning("Dead letter: %s in %s, %d bytes, task id %s", code, queue, size, task_id)
        push_dead_letter(message.channel, queue, {"code": code, "size": size, "taskId": task_id})
        if task_id:
            self._fail(task_id, code, message)
        message.ack()

    def _fail(self, task_id: str, code: str, message: Message) -> None:
        error = DeadLettered(code, REASONS.get(code, "the message could not be run"), {"code": code})
        request = request_of(task_id, message)
        try:
            self.app.backend.mark_as_failure(task_id, error, request=request)
            tell_run(self.app, message.headers, error)
        except Exception as exc:  # noqa: BLE001 -- the result backend may be down; the letter itself is kept
            logger.error("No failure stored for task id %s: %s", task_id, type(exc).__name__)


def refusal_code(message: Message, known: Mapping[str, object]) -> str | None:
    """Why a delivered message can't be run, or None."""
    refused = message.headers.get(REFUSED)
    if refused is not None:
        return str(refused)
    if message.headers["task"] not in known:
        return "UNKNOWN_TASK"
    return None if read_body(message) is not None else "BAD_BODY"


def read_body(message: Message) -> tuple[list[Any], dict[str, Any], dict[str, Any]] | None:  # any JSON
    """Arguments and canvas of a message, or None if its body is not of that form."""
    try:
        body = message.payload  # decoded once, kept for Celery's own reading
    except (KombuError, ContentDisallowed):
        return None
    if not isinstance(body, list) or len(body) != 3:
        return None
    args, kwargs, canvas = body
    if (
        not isinstance(args, list)
        or not isinstance(kwargs, dict)
        or not isinstance(canvas, (dict, type(None)))
    ):
        return None
    canvas = canvas or {}
    well_formed = canvas.keys() <= CANVAS_KEYS and all(
        isinstance(v, (list, dict, type(None))) for v in canvas.values()
    )
    return (args, kwargs, canvas) if well_formed else None


def push_dead_letter(channel: Any, queue: str, letter: Mapping[str, object]) -> None:  # kombu's channel
    """Add to `<queue>:dead`, newest first. A shard's letters can be retried, so none of them is dropped."""
    key = dead_key(queue)
    with channel.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
        pipe.lpush(key, json.dumps(letter))
        if not is_shard_queue(queue):
            pipe.ltrim(key, 0, DEAD_LETTERS_KEPT - 1)
        pipe.execute()


def tell_run(app: Any, headers: Mapping[str, Any], error: DeadLettered) -> None:  # Celery's edge
    """End the run of a graph whose node is given up: it would be handed out again until the deadline."""
    run = headers.get("root_id")
    step = step_of(headers.get("id"), run)
    if headers.get(GRAPH_HEADER) and run and step:
        node, _, attempt = step.partition(".")
        app.graphs.give_up(run, node, int(attempt or 1), error)


def request_of(task_id: str, message: Message) -> Context | None:
    """The request of a message whose body can be read, so that chords and errbacks hear of its failure."""
    body = read_body(message)
    if body is None or REFUSED in message.headers:
        return None
    args, kwargs, canvas = body
    # Celery asks the delivery whether it is an eager one before it sends errbacks
    known = {"id": task_id, "args": args, "kwargs": kwargs, "delivery_info": message.delivery_info}
    return Context({**message.headers, **canvas, **known})
