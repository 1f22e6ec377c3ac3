"""The Celery application: `create_app`, and `app` for `celery -A ditto_tasks worker`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, Final, cast
from weakref import WeakSet

from celery import Celery
from celery.app.amqp import AMQP
from kombu import Exchange
from kombu.utils.uuid import uuid

from ditto_tasks.admission import Admission, Gate, before_publish
from ditto_tasks.batch.schedule import BATCH_NODES, beat_schedule
from ditto_tasks.coordination import BrokerClient, Coordination
from ditto_tasks.dependencies import Dependencies
from ditto_tasks.errors import SettingsError
from ditto_tasks.extensions import ExtensionFactory, load_factory
from ditto_tasks.metrics.counts import Counts
from ditto_tasks.metrics.logs import write_json_logs
from ditto_tasks.metrics.recording import Recorder
from ditto_tasks.node_task import task_class
from ditto_tasks.nodes import BATCH_QUEUE, CUSTOM_QUEUE, NODES, NodeTable, NodeType, table
from ditto_tasks.pipelines.base import EndStore, PipelineRecord
from ditto_tasks.pipelines.canvas import answer_canvas, flow_task
from ditto_tasks.pipelines.graph_functions import Functions
from ditto_tasks.pipelines.graph_records import GraphRecords
from ditto_tasks.pipelines.graph_runs import GraphRuns, Message, sweep_graphs
from ditto_tasks.pipelines.loop_records import LoopRecords
from ditto_tasks.pipelines.loop_runs import LoopRuns, sweep_loops
from ditto_tasks.pipelines.models import AnswerRequest
from ditto_tasks.pipelines.plan import Step
from ditto_tasks.pipelines.records import PipelineRecords
from ditto_tasks.pipelines.run_index import RunIndex
from ditto_tasks.pipelines.run_reading import RunRecords
from ditto_tasks.pipelines.runs import StepRuns, register_errback
from ditto_tasks.pipelines.sweep import sweep
from ditto_tasks.presence import Presence
from ditto_tasks.publishing import Publish, built_in_options, check_order, check_publish, check_size
from ditto_tasks.routing import Router, worker_queues
from ditto_tasks.sending import note_begun, typed_broker_errors
from ditto_tasks.serialization import CONTENT_TYPE, NAME, register_content_type
from ditto_tasks.settings import Settings, check_visibility_timeout, load_settings
from ditto_tasks.task import Handler, load_handler
from ditto_tasks.tracing import NoTraces, Traces
from ditto_tasks.worker.addresses import celery_address
from ditto_tasks.worker.connection import GuardedConnection
from ditto_tasks.worker.keys import GRAPH_HEADER
from ditto_tasks.worker.late_starts import LateStarts
from ditto_tasks.worker.request import QUIET_TASK
from ditto_tasks.worker.signals import on_shard_tick

__all__ = ["BATCH_QUEUE", "DittoCelery", "create_app"]

BUILT_IN: Final = "celery."  # Celery's own tasks, whose arguments are signatures and ids
CHORD_EXPIRES_S: Final = 6 * 3600
VISIBILITY_TIMEOUT_S: Final = 3600  # at least; a stock queue redelivers after it
CONCURRENCY: Final = 16
# by name: importing a backend imports its driver, which only a connection needs
RESULT_BACKENDS: Final[Mapping[str, str]] = {
    "redis": "ditto_tasks.result_backend:QuietRedisBackend",
    "rediss": "ditto_tasks.result_backend:QuietRedisBackend",
    "sentinel": "ditto_tasks.result_backend:QuietSentinelBackend",
}
SOCKET_TIMEOUT_S: Final = 30
CONNECT_TIMEOUT_S: Final = 5
LOCAL_BROKER: Final = "redis://127.0.0.1:6379/0"
LOCAL_RESULTS: Final = "redis://127.0.0.1:6379/1"


class DittoAMQP(AMQP):
    """Queues without exchanges, one content type for tasks, and guarded channels."""

    Connection = GuardedConnection
    default_exchange = Exchange("")  # publishing is then one LPUSH, and no binding can vanish

    @staticmethod
    def autoexchange(_name: str) -> Exchange:  # type: ignore[override]  # celery calls it, its stubs say otherwise
        return Exchange("")

    def TaskConsumer(self, channel: Any, queues: Any = None, accept: Any = None, **kw: Any) -> Any:  # noqa: N802, ARG002 -- Celery's name; what tasks accept is not a choice
        return super().TaskConsumer(channel, queues=queues, accept=[CONTENT_TYPE], **kw)


class DittoCelery(Celery):
    """Celery with one choke point for publishing and with typed errors."""

    amqp_cls = DittoAMQP  # type: ignore[assignment]  # a class does as well as its name
    task_cls = QUIET_TASK
    events_cls = "ditto_tasks.worker.heartbeats:OneTryEvents"

    def __init__(self, settings: Settings, dependencies: Dependencies, nodes: NodeTable) -> None:
        self.settings = settings
        self.dependencies = dependencies
        self.nodes = nodes
        self.coordination = Coordination(settings.connections.deployment, self._broker_client)
        self._shards_checked_by: int | None = None
        self.result_backends: WeakSet[Any] = WeakSet()  # of each thread that asked for results
        self._handlers: dict[str, Handler] = {}
        self.late_starts = LateStarts()
        register_content_type()
        super().__init__("ditto_tasks", set_as_current=False)
        self.loader.override_backends = dict(RESULT_BACKENDS)
        self.steps["consumer"].add("ditto_tasks.worker.bootsteps:ShardStep")
        self.conf.update(configuration(settings, nodes))
        for row in nodes.values():
            self.register_task(task_class(row)())
        results = settings.runtime.results
        self.records = PipelineRecords(
            settings.connections.deployment, self._broker_client, results.expires_ms
        )
        self.runs = StepRuns(self.records, lambda: self.backend, self._send_step)
        register_errback(self, self.runs)
        graph_records = GraphRecords(settings.connections.deployment, self._broker_client, results.expires_ms)
        self.graphs = GraphRuns(graph_records, self._ends, self._send_node, self._functions, self._go_round)
        loop_records = LoopRecords(settings.connections.deployment, self._broker_client, results.expires_ms)
        self.loops = LoopRuns(loop_records, self.graphs, self._ends, self._functions, self._admit_iteration)
        self.run_index = RunIndex(settings.connections.deployment, self._broker_client)
        self.run_records = RunRecords(self.run_index, self.records, graph_records, loop_records)
        self.counts = Counts(settings.connections.deployment, self._broker_client)
        self.presence = Presence()
        self._recorder = Recorder(
            self, self.counts, self.presence, default_model=settings.connections.infer_model
        )
        self._recorder.connect()
        self.traces = _traces(self) if settings.connections.otel else NoTraces()
        if settings.connections.log_format == "json":
            write_json_logs()
        on_shard_tick.connect(self._look_after_pipelines, sender=self)

    def send_task(  # type: ignore[override]  # Celery's own callers name every option
        self, name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:  # Celery's edge
        """Check, redact and publish one call. Typed errors before anything is sent; else BrokerError."""
        if name.startswith(BUILT_IN):
            return super().send_task(name, args, kwargs, **built_in_options(options))
        publish = check_publish(self.nodes.get(name), args, kwargs, self.settings.runtime.shards.count)
        check_order(publish, options)
        check_size(publish, {key: options.get(key) for key in ("chord", "chain", "link", "link_error")})
        task_id = options.get("task_id") or uuid()
        with typed_broker_errors():
            gate = self._gate(task_id, publish, options)
        checked = {**publish.options(name, options), "task_id": task_id}
        with (
            self.traces.publishing(name, task_id, options.get("root_id"), checked["headers"]),
            typed_broker_errors(),
            before_publish(gate),
        ):
            return super().send_task(name, publish.args, publish.kwargs, **checked)

    def close(self) -> None:
        """Close connections to results, too; the broker's are kombu's, which all applications share."""
        for backend in list(self.result_backends):
            backend.close()
        super().close()

    def _look_after_pipelines(self, shards: frozenset[int], **_signal: object) -> None:
        for shard in sorted(shards):
            sweep(shard, records=self.records, runs=self.runs, resend=self._resend)
            sweep_graphs(shard, self.graphs)
            sweep_loops(shard, self.loops)

    def _resend(self, record: PipelineRecord) -> None:
        if isinstance(record.request, AnswerRequest):
            answer_canvas(self, record.request, record.pipeline, record.results).apply_async()
        else:
            self.runs.go_on(record.pipeline)

    def _send_step(self, record: PipelineRecord, step: Step) -> None:
        flow_task(self, step, record.pipeline, record.request.scope).apply_async()

    def _send_node(self, message: Message) -> None:
        self.send_task(
            message.node,
            kwargs=message.wire,
            task_id=message.task_id,
            root_id=message.run,
            headers={**message.headers, GRAPH_HEADER: 1},
            ignore_result=True,  # what it gives is kept with its run
        )

    def _admit_iteration(self, admission: Admission) -> None:
        self.coordination.admit(admission, max_depth=self.settings.runtime.shards.max_depth)

    def _ends(self) -> EndStore:
        return cast(EndStore, self.backend)

    def _go_round(self, loop: str) -> None:
        self.loops.go_on(loop)

    def _functions(self) -> Functions:
        return self.dependencies.bindings()

    def handler(self, row: NodeType) -> Handler:
        """The function that runs a node; its module is imported when a worker first needs it."""
        found = self._handlers.get(row.name)
        if found is None:
            found = self._handlers[row.name] = load_handler(row)
        return found

    def shorten_result(self, task_id: str, seconds: int) -> None:
        """Let a large result live for less than the others."""
        backend: Any = self.backend  # only Redis's has a client
        if hasattr(backend, "client"):
            backend.client.expire(backend.get_key_for_task(task_id), seconds)

    def _gate(self, task_id: str, publish: Publish, options: Mapping[str, Any]) -> Gate:  # Celery's edge
        shards, results = self.settings.runtime.shards, self.settings.runtime.results
        if publish.queue is not None and self._shards_checked_by != os.getpid():
            self.coordination.check_shard_count(shards.count)
            self._shards_checked_by = os.getpid()
        root_id = options.get("root_id") or task_id
        admission = Admission(
            task_id=task_id,
            root_id=root_id,
            shard_queue=publish.queue,
            session=publish.session,
            tenant=publish.tenant,
            ttl_ms=results.expires_ms + self.settings.runtime.pipelines.deadline_ms,
            in_canvas=root_id != task_id or any(options.get(name) for name in ("chain", "chord", "link")),
        )
        return self.coordination.gate(admission, max_depth=shards.max_depth)

    @contextmanager
    def _broker_client(self) -> Iterator[BrokerClient]:
        with (
            self.connection_or_acquire() as connection,
            connection.default_channel.conn_or_acquire() as client,  # `.client` may wait for a message
        ):
            note_begun()
            yield client


def create_app(
    settings: Settings | None = None,
    *,
    extensions: Iterable[ExtensionFactory] = (),
    nodes: Iterable[NodeType] = (),
) -> DittoCelery:
    """An application for these settings (default: the environment's).

    `extensions` are called once a worker process, before those of DITTO_EXTENSIONS. `nodes` are custom
    node types; each names the module whose HANDLERS run it.
    """
    settings = load_settings() if settings is None else settings
    factories = (*extensions, *(_named(name) for name in settings.extensions))
    rows = table([*NODES.values(), *BATCH_NODES, *nodes])
    return DittoCelery(settings, Dependencies(settings, factories), rows)


def configuration(settings: Settings, nodes: NodeTable) -> dict[str, Any]:  # Celery's edge
    """Celery's settings; what is not here keeps Celery's default."""
    visibility_s = max(VISIBILITY_TIMEOUT_S, 2 * settings.longest_task_ms // 1000 + 60)
    check_visibility_timeout(settings, visibility_s)
    return {
        **_connections(settings, visibility_s),
        **_FIXED,
        "task_routes": (Router(settings.runtime.shards.count, nodes),),
        "task_queues": worker_queues(),
        "result_expires": settings.runtime.results.expires_ms / 1000,
        "beat_schedule": beat_schedule(settings),
    }


def _connections(settings: Settings, visibility_s: int) -> dict[str, object]:
    urls = settings.connections.broker_url, settings.connections.result_backend_url
    broker, results = (None if url is None else celery_address(url.get_secret_value()) for url in urls)
    return {
        "broker_url": LOCAL_BROKER if broker is None else broker.url,
        "result_backend": LOCAL_RESULTS if results is None else results.url,
        "result_backend_transport_options": {} if results is None else dict(results.options),
        "broker_transport_options": {
            **({} if broker is None else broker.options),
            "visibility_timeout": visibility_s,
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
        },
        "broker_connection_timeout": CONNECT_TIMEOUT_S,
        "redis_socket_timeout": SOCKET_TIMEOUT_S,
        "redis_socket_connect_timeout": CONNECT_TIMEOUT_S,
    }


_FIXED: Final[Mapping[str, object]] = {
    "accept_content": [NAME, "json"],  # json is for control and events; task consumers take the first only
    "task_serializer": NAME,
    "result_serializer": NAME,
    "result_accept_content": [NAME],
    "event_serializer": "json",
    "task_default_queue": CUSTOM_QUEUE,
    "task_acks_late": True,
    "task_track_started": True,
    "result_extended": False,
    "task_store_errors_even_if_ignored": True,  # whoever ignores results still asks why one does not come
    "result_chord_expires": CHORD_EXPIRES_S,
    "worker_pool": "threads",
    "worker_concurrency": CONCURRENCY,
    "worker_prefetch_multiplier": 1,
    "worker_disable_rate_limits": True,
    "worker_consumer": "ditto_tasks.worker.consumer:GuardedConsumer",
    "broker_connection_retry_on_startup": True,
    "broker_pool_limit": 2 * CONCURRENCY,  # a thread publishes and asks for its cancel key
}


def _traces(app: DittoCelery) -> Traces:
    """Imported here, since OpenTelemetry comes with an extra."""
    try:
        module = import_module("ditto_tasks.open_telemetry")
    except ImportError as exc:
        message = "DITTO_OTEL: needs ditto-tasks[otel]"
        raise SettingsError("MISSING_EXTRA", message, {"path": "DITTO_OTEL"}) from exc
    traces = module.OpenTelemetryTraces(app, app.coordination)
    traces.connect()
    return cast("Traces", traces)


def _named(name: str) -> ExtensionFactory:
    def open_named(settings: Settings) -> Any:  # checked where it is opened
        return load_factory(name)(settings)

    return open_named


@cache
def _app() -> DittoCelery:
    return create_app()


def __getattr__(name: str) -> DittoCelery:
    """`app`, built when `celery -A ditto_tasks` asks for it: importing this module opens nothing."""
    if name == "app":
        return _app()
    raise AttributeError(name)
