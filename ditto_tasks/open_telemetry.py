"""Spans of calls by OpenTelemetry: one a publish, one a task, one around the start of a run.

Names, ids, hashes and codes only. OpenTelemetry's own instrumentation of Celery is not used:
docs/decisions.md says why. What collects spans is whatever provider the process has set.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from celery import signals
from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ditto_tasks.coordination import Coordination
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.loops import loop_of
from ditto_tasks.redis_replies import text
from ditto_tasks.task import Reply
from ditto_tasks.worker.keys import SCOPE_HEADER

NAME: Final = "ditto_tasks"
SYSTEM: Final = "redis"
_KEPT: Final = TraceContextTextMapPropagator()  # of a run's start; an application's baggage is not kept
CODE: Final = re.compile(r"[A-Z][A-Z0-9_]{0,63}")  # what a node answers may be of another make
FAILED: Final = frozenset({"failed", "timeout", "cancelled"})  # statuses of a NodeResult


class _Running(NamedTuple):
    span: Span
    token: object  # what the thread's context was before


class OpenTelemetryTraces:
    """Implements Traces for one application; receivers are weak and go with it."""

    def __init__(self, app: object, coordination: Coordination) -> None:
        self._app = app
        self._clients = coordination.clients
        self._keys = Keys(coordination.deployment)
        self._tracer = trace.get_tracer(NAME)
        self._running: dict[tuple[str, int], _Running] = {}

    def connect(self) -> None:
        """Listen. Processes that run no tasks never hear anything."""
        signals.task_prerun.connect(self._on_start)
        signals.task_postrun.connect(self._on_end)

    @contextmanager
    def starting(self, kind: str, run_id: str, *, ttl_ms: int) -> Iterator[None]:
        attributes = {"ditto.run_id": run_id, "ditto.run_kind": kind}
        with self._span(f"start {kind}", SpanKind.INTERNAL, attributes):
            self._remember(run_id, ttl_ms)
            yield

    def prolong(self, run_id: str, *, ttl_ms: int) -> None:
        key = self._keys.trace(run_id)
        with self._clients() as client:
            stored = client.get(key)
            if stored is not None:
                client.set(key, text(stored), px=ttl_ms)

    @contextmanager
    def publishing(
        self, node: str, task_id: str, root_id: str | None, headers: MutableMapping[str, Any]
    ) -> Iterator[None]:
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "send",
            "messaging.message.id": task_id,
            **_scope(headers),
        }
        alone = root_id is not None and not trace.get_current_span().get_span_context().is_valid
        parent = _KEPT.extract(self._remembered(str(root_id))) if alone else None
        with self._span(f"send {node}", SpanKind.PRODUCER, attributes, parent):
            propagate.inject(headers)
            yield

    @contextmanager
    def _span(
        self, name: str, kind: SpanKind, attributes: Mapping[str, str], parent: Context | None = None
    ) -> Iterator[None]:
        """A span of this thread. An error's text may hold anything: its code is told instead."""
        started = self._tracer.start_as_current_span(
            name, parent, kind, attributes, record_exception=False, set_status_on_exception=False
        )
        with started as span:
            try:
                yield
            except BaseException as error:
                _tell_error(span, error)
                raise

    def _on_start(self, task_id: str = "", task: Any = None, **_about: object) -> None:  # Celery's edge
        if task is None or task.app is not self._app:
            return
        request = task.request
        parent = _context_of({name: request.get(name) for name in propagate.get_global_textmap().fields})
        queue = (request.delivery_info or {}).get("routing_key")
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.type": "process",
            "messaging.message.id": task_id,
            "messaging.destination.name": queue or "",
            "ditto.root_id": request.root_id or task_id,
            **_scope({SCOPE_HEADER: request.get(SCOPE_HEADER)}),
        }
        span = self._tracer.start_span(task.name, parent, SpanKind.CONSUMER, attributes)
        token = context.attach(trace.set_span_in_context(span, parent))
        self._running[task_id, threading.get_ident()] = _Running(span, token)

    def _on_end(
        self, task_id: str = "", retval: object = None, state: str | None = None, **_about: object
    ) -> None:
        running = self._running.pop((task_id, threading.get_ident()), None)
        if running is None:
            return
        running.span.set_attribute("celery.state", state or "")
        if isinstance(retval, Exception):
            _tell_error(running.span, retval)
        elif isinstance(retval, Reply):
            _tell_result(running.span, retval.value)
        running.span.end()
        context.detach(running.token)  # type: ignore[arg-type]  # the API's tokens have no public type

    def _remember(self, run_id: str, ttl_ms: int) -> None:
        carrier: dict[str, str] = {}
        _KEPT.inject(carrier)
        if carrier:  # nothing where the process has no provider
            with self._clients() as client:
                client.set(self._keys.trace(run_id), encode(dict(carrier)).decode(), px=ttl_ms)

    def _remembered(self, run_id: str) -> dict[str, str]:
        """What was kept of a run's start; of an iteration that is its loop's."""
        with self._clients() as client:
            stored = client.get(self._keys.trace(run_id)) or client.get(
                self._keys.trace(loop_of(run_id) or run_id)
            )
        found = None if stored is None else decode(text(stored))
        return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _context_of(headers: Mapping[str, object]) -> Context:
    """What the sender of a message put into its headers; they may have come from anywhere."""
    carrier = {name: value for name, value in headers.items() if isinstance(value, str)}
    return propagate.extract(carrier, context=Context())


def _scope(headers: Mapping[str, object]) -> dict[str, str]:
    hashed = headers.get(SCOPE_HEADER)
    return {"ditto.scope": hashed} if isinstance(hashed, str) else {}


def _tell_error(span: Span, error: BaseException) -> None:
    code = error.code if isinstance(error, DittoError) else type(error).__name__
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, code))


def _tell_result(span: Span, value: object) -> None:
    """A failed NodeResult is data for Celery, and a failure for whoever looks at the trace."""
    if not isinstance(value, Mapping) or value.get("status") not in FAILED or "executionId" not in value:
        return
    error = value.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    known = code if isinstance(code, str) and CODE.fullmatch(code) else "FAILED"
    span.set_attribute("error.type", known)
    span.set_status(Status(StatusCode.ERROR, known))
