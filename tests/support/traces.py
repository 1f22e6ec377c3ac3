"""Spans in tests: of this process, and of workers that OpenTelemetry's own starter set up."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ditto_tasks.embedded import EmbeddedServer
from support.workers import WorkerProcess

STARTER = str(Path(sys.executable).with_name("opentelemetry-instrument"))
VARIABLES = {
    "DITTO_OTEL": "true",
    "OTEL_TRACES_EXPORTER": "console",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "celery",
    "OTEL_BSP_SCHEDULE_DELAY": "100",
}
EXPORTED = InMemorySpanExporter()


@dataclass(frozen=True)
class Seen:
    """One span as its exporter got it."""

    name: str
    trace: str
    id: str
    parent: str | None
    attributes: Mapping[str, object]
    raw: str

    @property
    def task(self) -> object:
        return self.attributes.get("messaging.message.id")

    @property
    def of_redis(self) -> bool:
        return self.attributes.get("db.system") == "redis"


def record_here() -> None:
    """Keep this process's spans; OpenTelemetry takes one provider a process, for good."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
        trace.set_tracer_provider(provider)


def of_this_process() -> list[Seen]:
    """What this process exported since `record_here`."""
    return [_seen(json.loads(span.to_json())) for span in EXPORTED.get_finished_spans()]


class TracedWorker(WorkerProcess):
    """A worker that is started as docs/operations.md says, and writes its spans to its log."""

    def __init__(self, server: EmbeddedServer, *, env: Mapping[str, str], args: Sequence[str] = ()) -> None:
        super().__init__(server, env={**env, **VARIABLES}, args=args, log_level="INFO")
        self._command = [STARTER, *self._command]

    def spans(self) -> list[Seen]:
        """What it exported so far."""
        return [_seen(span) for span in _objects(self.logs())]


def _objects(log: str) -> Iterator[dict[str, Any]]:  # a span's JSON
    """The spans that stand in a log, each with the lines of others around it."""
    decoder, at = json.JSONDecoder(), log.find('{\n    "name"')
    while at >= 0:
        try:
            span, end = decoder.raw_decode(log, at)
        except json.JSONDecodeError:  # not whole yet
            return
        yield span
        at = log.find('{\n    "name"', end)


def _seen(span: dict[str, Any]) -> Seen:  # a span's JSON
    context = span["context"]
    return Seen(
        span["name"],
        context["trace_id"],
        context["span_id"],
        span["parent_id"],
        span["attributes"],
        json.dumps(span),
    )
