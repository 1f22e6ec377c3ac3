"""Every private hook of kombu, Celery and redis-py in use: an upgrade that moves one fails here by name."""

import inspect
from importlib.metadata import version

import pytest
from celery import bootsteps
from celery.app.amqp import Queues
from celery.backends.base import Backend
from celery.backends.redis import RedisBackend, ResultConsumer
from celery.concurrency.asynpool import AsynPool
from celery.concurrency.base import apply_target
from celery.concurrency.prefork import TaskPool as ProcessPool
from celery.concurrency.thread import TaskPool
from celery.worker import consumer as consumers
from celery.worker import request, state
from celery.worker.consumer import Consumer
from celery.worker.worker import WorkController
from kombu import Queue
from kombu.asynchronous.hub import Hub
from kombu.connection import ConnectionPool
from kombu.message import Message as AnyMessage
from kombu.transport import redis as kombu_redis
from kombu.transport.virtual.base import Base64, Message
from kombu.transport.virtual.base import Channel as VirtualChannel
from redis import Redis
from redis.connection import AbstractConnection, Connection
from support.shards import Deployment

from ditto_tasks.embedded import EmbeddedServer


def source(subject: object) -> str:
    """The text of a function or class of the libraries."""
    return inspect.getsource(subject)  # type: ignore[arg-type]  # whatever has source


@pytest.mark.parametrize(("package", "series"), [("kombu", "5.7."), ("celery", "5.7.")])
def test_the_pinned_series_is_installed(package: str, series: str) -> None:
    """The hooks below were read in this series; pyproject.toml allows no other."""
    assert version(package).startswith(series), f"{package} {version(package)}: read the hooks again"


def test_kombu_puts_new_messages_on_the_left() -> None:
    """kombu.transport.redis.Channel._put: LPUSH, so that the right end is the head that shards take."""
    assert "lpush(key, dumps(message))" in source(kombu_redis.Channel._put)
    assert "'BRPOP'" in source(kombu_redis.Channel._brpop_start)


def test_redis_connections_have_a_socket_whose_would_block_is_the_context_of_their_error() -> None:
    """AbstractConnection: _sock, and a ConnectionError raised while a BlockingIOError is handled."""
    assert "self._sock = sock" in source(AbstractConnection.connect_check_health)
    assert "except OSError as e:" in source(AbstractConnection.send_packed_command)


def test_kombu_publishes_through_put_and_makes_its_pool_of_a_connections_options() -> None:
    """Channel.basic_publish: _put(queue, message, **kwargs), and ConnectionPool.new: _info(resolve=False)."""
    assert "return self._put(routing_key, message, **kwargs)" in source(VirtualChannel.basic_publish)
    assert "kwargs.pop('_publish_batch', None)" in source(kombu_redis.Channel._put)
    assert "self._get_message_priority(message, reverse=False)" in source(kombu_redis.Channel._put)
    assert "PooledConnection(self, **dict(self.connection._info(resolve=False)))" in source(
        ConnectionPool.new
    )


def test_the_task_handler_asks_the_consumer_for_its_acknowledger() -> None:
    """Consumer.create_task_handler: reads self.call_soon_ack, which shards replace on a copy."""
    text = source(Consumer.create_task_handler)
    assert "call_soon_ack = self.call_soon_ack" in text
    assert "(message.ack_log_error,)" in text
    assert "(message.reject_log_error,)" in text
    assert "not self._maximum_prefetch_restored" in text


def test_the_acknowledger_gets_a_callable_and_its_arguments() -> None:
    """Consumer.call_soon_ack(p, *args, **kwargs): the form that the replacement has."""
    assert str(inspect.signature(Consumer.call_soon_ack)) == "(self, p, *args, **kwargs)"


def test_a_request_acknowledges_with_logger_and_errors() -> None:
    """Request.acknowledge and .reject: call on_ack(logger, errors) and on_reject(logger, errors, requeue)."""
    assert "self._on_ack(logger, self._connection_errors)" in source(request.Request.acknowledge)
    assert "self._on_reject(logger, self._connection_errors, requeue)" in source(request.Request.reject)


def test_a_rejected_task_stores_no_result_when_it_is_requeued() -> None:
    """Request.on_failure: Reject(requeue=True) only rejects, so that a message can go back to the head."""
    text = source(request.Request.on_failure)
    assert "elif isinstance(exc, Reject):" in text
    assert "if not exc.requeue:" in text
    assert "return self.reject(requeue=exc.requeue)" in text


def test_a_message_settles_through_its_channel() -> None:
    """Message.ack and .reject: call channel.basic_ack(tag, multiple=) and basic_reject(tag, requeue=)."""
    assert "self.channel.basic_ack(self.delivery_tag, multiple=multiple)" in source(AnyMessage.ack)
    assert "self.channel.basic_reject(self.delivery_tag, requeue=requeue)" in source(AnyMessage.reject)
    assert "self.channel.no_ack_consumers" in source(AnyMessage.ack)


def test_a_message_decodes_its_body_through_its_channel() -> None:
    """virtual.Message: channel.decode_body(body, body_encoding), and base64 is the encoding."""
    assert "channel.decode_body(body, properties.get('body_encoding'))" in source(Message.__init__)
    assert Base64().decode(Base64().encode("text")) == b"text"


def test_a_step_can_tell_a_reconnect_from_a_stop() -> None:
    """Blueprint.stop sets another state before it stops steps; a reconnect (`restart`) leaves RUN."""
    text = source(bootsteps.Blueprint.stop)
    assert text.index("self.state = CLOSE") < text.index("self.restart(")
    assert "state" not in source(bootsteps.Blueprint.restart)
    assert bootsteps.RUN != bootsteps.CLOSE
    assert "blueprint.restart(self)" in source(Consumer.start)


def test_a_step_may_be_named_by_its_path() -> None:
    """Blueprint.load_step resolves "module:Class": an application need not import its worker's code."""
    assert "symbol_by_name(step)" in source(bootsteps.Blueprint.load_step)
    assert consumers.Tasks.name == "celery.worker.consumer.tasks.Tasks"


def test_the_hub_takes_readers_and_calls_from_threads() -> None:
    """kombu Hub.add_reader/remove_reader; Hub.call_soon wakes the loop from any thread."""
    assert str(inspect.signature(Hub.add_reader)) == "(self, fds, callback, *args)"
    assert str(inspect.signature(Hub.remove_reader)) == "(self, fd)"
    assert "waker.wake()" in source(Hub.call_soon)
    assert "self.hub.call_soon(p)" in source(Consumer.call_soon)


def test_the_loop_looks_at_should_stop() -> None:
    """celery.worker.state.should_stop ends the worker from any thread."""
    assert "raise WorkerShutdown(should_stop)" in source(state.maybe_shutdown)
    assert "state.maybe_shutdown()" in source(consumers.consumer.loops.asynloop)


def test_reserved_requests_count_what_the_pool_has() -> None:
    """celery.worker.state.reserved_requests and pool.num_processes say whether a thread is free."""
    assert hasattr(state, "reserved_requests")
    assert TaskPool(limit=3, app=None).num_processes == 3


def test_the_pool_drops_what_has_not_started_when_it_stops() -> None:
    """TaskPool.on_stop cancels waiting tasks: shards must give such messages back before."""
    assert "cancel_futures=True" in source(TaskPool.on_stop)


def test_a_request_hears_that_the_pool_has_picked_it_up() -> None:
    """Request.on_accepted is called before the task runs: the started mark of a message that waited."""
    assert "accept_callback=self.on_accepted" in source(request.Request.execute_using_pool)
    text = source(apply_target)
    assert text.index("accept_callback(pid") < text.index("target(*args")
    assert "callback, accept_callback)" in source(TaskPool.on_apply)


def test_a_pool_of_processes_forgets_in_its_flush_what_no_child_confirmed() -> None:
    """ProcessPool.flush, set by itself, and of its _pool: _cache, outbound_buffer, _active_writers, jobs."""
    assert "self.flush = getattr(P, 'flush', None)" in source(ProcessPool.on_start)
    assert "self._pool = None" in source(ProcessPool.on_stop)
    text = source(AsynPool.flush)
    for use in ("self._cache.values()", "job._accepted", "job.discard()", "self.outbound_buffer.clear()"):
        assert use in text
    assert "self._flush_writer(job_proc, gen)" in text
    assert "self._active_writers.discard(writer)" in source(AsynPool._flush_writer)
    writing = source(AsynPool._create_write_handlers)
    assert "job._write_to = proc" in writing
    assert "job._writer = ref(cor)" in writing
    assert "correlation_id=task_id" in source(request.Request.execute_using_pool)


def test_a_worker_tells_its_steps_when_its_pool_has_stopped() -> None:
    """WorkController.on_stopped, after all of its steps: Consumer.shutdown, and `shutdown` of each step."""
    assert "self.consumer.shutdown()" in source(WorkController.on_stopped)
    assert "self.send_all(parent, 'shutdown')" in source(Consumer.Blueprint.shutdown)


def test_queues_can_be_deselected() -> None:
    """Queues.consume_from lists what is consumed, and `deselect` takes the pseudo-queue out again."""
    queues = Queues([Queue("one"), Queue("two")])
    queues.deselect("two")
    assert list(queues.consume_from) == ["one"]


def test_stock_result_backends_can_be_told_to_wait() -> None:
    """conf.result_backend_always_retry makes Backend._ensure_retryable repeat a store until it succeeds."""
    text = source(Backend._ensure_retryable)
    assert "self.always_retry" in text
    assert "self.exception_safe_to_retry(exc)" in text


def test_a_peek_moves_nothing(server: EmbeddedServer) -> None:
    """BLMOVE q q RIGHT RIGHT answers with the head and leaves the list as it was."""
    with Redis.from_url(server.redis_url(0)) as client:
        deployment = Deployment(client)
        deployment.send(0, b"1", b"2", b"3")
        assert client.blmove("ditto.ctx.0", "ditto.ctx.0", 1, "RIGHT", "RIGHT") == b"1"
        assert deployment.waiting(0) == [b"1", b"2", b"3"]


def test_a_connection_of_redis_py_can_wait_in_an_event_loop(server: EmbeddedServer) -> None:
    """ConnectionPool.get_connection, Connection.send_command, ._sock, .read_response: what peeks use."""
    with Redis.from_url(server.redis_url(0)) as client:
        connection = client.connection_pool.get_connection()
        assert isinstance(connection, Connection) or hasattr(connection, "_sock")
        connection.send_command("PING")
        assert connection._sock.fileno() > 0
        assert connection.read_response() in (b"PONG", "PONG")
        connection.disconnect()
        assert connection._sock is None
        client.connection_pool.release(connection)


@pytest.mark.parametrize(
    ("owner", "hooks"),
    [
        (kombu_redis.Channel, ["_brpop_read", "_get", "_q_for_pri", "_maybe_update_queues_expire"]),
        (kombu_redis.Channel, ["priority_steps", "pool"]),
        (kombu_redis.Channel, ["_flush_brpop_reauth", "conn_or_acquire", "_create_client", "QoS", "sep"]),
        (kombu_redis.Transport, ["Channel", "_deliver", "driver_type"]),
        (kombu_redis.SentinelTransport, ["Channel"]),
        (Consumer, ["on_close"]),
        (Consumer, ["on_decode_error", "on_invalid_task", "on_unknown_task", "on_unknown_message"]),
        (ResultConsumer, ["consume_from", "on_wait_for_pending"]),
        (
            RedisBackend,
            ["ResultConsumer", "on_task_call", "get_key_for_task", "mark_as_failure", "_create_client"],
        ),
    ],
)
def test_what_is_overridden_or_called_by_name_is_there(owner: type, hooks: list[str]) -> None:
    """The names that subclasses here replace or call exist where they were."""
    assert [f"{owner.__qualname__}.{hook}" for hook in hooks if not hasattr(owner, hook)] == []


def test_the_guard_replaces_the_decoding_of_stock_channels_only() -> None:
    """Channel._brpop_read and ._get decode by loads() and deliver: what the guard replaces."""
    text = source(kombu_redis.Channel._brpop_read)
    assert "self.connection._deliver(loads(bytes_to_str(item)), dest)" in text
    assert "self._queue_cycle.rotate(dest)" in text
    assert "self._flush_brpop_reauth()" in text
    assert "return loads(bytes_to_str(item))" in source(kombu_redis.Channel._get)


def test_one_channel_sweeps_for_all() -> None:
    """MultiChannelPoller.maybe_restore_messages asks one channel of its own; shards are none of them."""
    assert "for channel in self._channels:" in source(kombu_redis.MultiChannelPoller.maybe_restore_messages)
