"""The blocking client."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack, cast, overload
from uuid import uuid4

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.client.answering import cancel_answer, cancel_task, start_answer, start_flow, the_request
from ditto_tasks.client.event_reader import EventReader
from ditto_tasks.client.flows import FlowCall, FlowMethods, with_settings
from ditto_tasks.client.graphs import (
    Outputs,
    RunOptions,
    cancel_run,
    loop_state,
    outputs_of,
    resume_run,
    run_call,
    start_run,
)
from ditto_tasks.client.methods import (
    ContextMethods,
    InferMethods,
    InteractionMethods,
    MemoryMethods,
    RetrievalMethods,
    SyncSender,
)
from ditto_tasks.client.models import Receipt, read_answer, read_json
from ditto_tasks.client.protocol import Call, Event, node_call, outcome
from ditto_tasks.client.streams import BLOCK_MS, FIRST, Entries, told_in
from ditto_tasks.client.waiting import ResultReader
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NodeType
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.pipelines.models import Answer, AnswerOptions
from ditto_tasks.sending import typed_broker_errors
from ditto_tasks.settings import Settings
from ditto_tasks.task import OPTIONS_KEY

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Pending(Generic[R_co]):
    """A call that was published. Waiting for it twice, or from several threads, is fine."""

    def __init__(
        self,
        client: Ditto,
        task_id: str,
        read: Callable[[JsonValue], R_co],
        cancel: Callable[[], None] | None = None,
    ) -> None:
        self.id = task_id
        self._client = client
        self._read = read
        self._cancel = cancel or (lambda: cancel_task(client.app, task_id))

    def get(self, timeout: float | None = None) -> R_co:
        """The typed result. Raises the task's typed error, or TimeoutError after `timeout` seconds."""
        return outcome(ResultReader(self._client.app).wait(self.id, timeout), self._read)

    def events(self, after: str = FIRST) -> Iterator[Event]:
        """What the task says while it runs, from the event after `after` on; ends when the task has ended."""
        app = self._client.app
        reader = EventReader(app.settings.connections.deployment, told_in(self.id), after)
        ended = False
        while not reader.finished:
            with typed_broker_errors(), app.coordination.clients() as client:
                entries = client.xread(dict(reader.asking(ended=ended)), block=BLOCK_MS)
            yield from reader.heard(cast("Entries | None", entries))
            ended = ended or ResultReader(app).look(self.id) is not None

    def cancel(self) -> None:
        """Ask the task to stop; what it has committed stands."""
        self._cancel()


class PendingRun(Pending[Outputs]):
    """A run of a graph."""

    def __init__(self, client: Ditto, run_id: str) -> None:
        super().__init__(client, run_id, lambda _: self.outputs(), lambda: cancel_run(client.app, run_id))

    def outputs(self, nodes: Sequence[str] | None = None) -> Outputs:
        """The outputs that are there by now, of these nodes or of all; it waits for none."""
        return outputs_of(self._client.app, self.id, nodes)


class PendingLoop(Pending[JsonValue]):
    """A run of a loop."""

    def __init__(self, client: Ditto, run_id: str) -> None:
        super().__init__(client, run_id, lambda _: self.state(), lambda: cancel_run(client.app, run_id))

    def state(self) -> JsonValue:
        """The loop's state by now."""
        return loop_state(self._client.app, self.id)


class Ditto(FlowMethods):
    """Submits nodes and pipelines, and waits by blocking. Safe in several threads and after a fork.

    Without settings those of the environment hold; `nodes` are custom node types of graphs. Nothing is opened
    before the first call. What is refused at the sender is raised by the call, what fails in the worker by
    its pending result's `get`.
    """

    def __init__(self, settings: Settings | None = None, *, nodes: Iterable[NodeType] = ()) -> None:
        self._settings = settings
        self._nodes = tuple(nodes)
        self._lock = threading.Lock()
        self._opened: tuple[int, DittoCelery] | None = None
        self.context = ContextMethods[
            Pending[Receipt], Pending[Context], Pending[ContextSelection], Pending[None]
        ](self)
        self.memory = MemoryMethods[SyncSender](self)
        self.retrieval = RetrievalMethods[SyncSender](self)
        self.infer = InferMethods[SyncSender](self)
        self.interaction = InteractionMethods[SyncSender](self)

    @property
    def app(self) -> DittoCelery:
        """The Celery application of this process: a forked child gets its own, with its own connections."""
        opened = self._opened
        if opened is not None and opened[0] == os.getpid():
            return opened[1]
        if opened is not None:
            self._lock = threading.Lock()  # the parent's may have been held by a thread that is not here
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = (os.getpid(), create_app(self._settings, nodes=self._nodes))
            return self._opened[1]

    def send(self, call: Call[R]) -> Pending[R]:
        """Publish a call; typed errors for what is refused before anything is sent."""
        self.app.send_task(call.node, kwargs=call.wire, task_id=call.task_id)
        return Pending(self, call.task_id, call.read)

    def invoke(
        self, node: str, wire: Mapping[str, object], *, ditto: Mapping[str, object] | None = None
    ) -> Pending[JsonValue]:
        """Call any node, custom ones too; the result comes as it is on the wire."""
        options = {} if ditto is None else {OPTIONS_KEY: ditto}
        return self.send(node_call(node, {**wire, **options}, read_json))

    def answer(
        self,
        scope: Scope | Mapping[str, JsonValue],
        question: str,
        *,
        pipeline_id: str | None = None,
        **options: Unpack[AnswerOptions],
    ) -> Pending[Answer]:
        """Start the answering pipeline; the result's id is the pipeline's."""
        pipeline = pipeline_id or str(uuid4())
        request = the_request(self.app.settings, scope, question, options)
        start_answer(self.app, request, pipeline)
        return Pending(self, pipeline, read_answer, lambda: cancel_answer(self.app, request, pipeline))

    def start(self, call: FlowCall[R]) -> Pending[R]:
        """Start a flow; the result's id is the pipeline's."""
        request = with_settings(call.request, self.app.settings)
        start_flow(self.app, request, call.pipeline)
        return Pending(
            self, call.pipeline, call.read, lambda: cancel_answer(self.app, request, call.pipeline)
        )

    @overload
    def run(self, graph: Graph, input: object = ..., **options: Unpack[RunOptions]) -> PendingRun: ...
    @overload
    def run(self, graph: Loop, input: object = ..., **options: Unpack[RunOptions]) -> PendingLoop: ...
    def run(
        self,
        graph: Graph | Loop,
        input: object = None,  # noqa: A002 -- as nodes call it
        **options: Unpack[RunOptions],
    ) -> PendingRun | PendingLoop:
        """Start a run of a graph, which gives {node id: output}, or of a loop, which gives its last state.

        The result's id is the run's.
        """
        call = run_call(graph, input, options)
        start_run(self.app, call)
        return PendingRun(self, call.run) if isinstance(graph, Graph) else PendingLoop(self, call.run)

    def resume(self, run_id: str, *, timeout_ms: int | None = None) -> PendingRun:
        """Let a graph's run that failed or was cancelled go on from what was settled, with a new deadline."""
        resume_run(self.app, run_id, timeout_ms)
        return PendingRun(self, run_id)

    def resume_loop(self, run_id: str, *, timeout_ms: int | None = None) -> PendingLoop:
        """The same for a loop's run."""
        resume_run(self.app, run_id, timeout_ms)
        return PendingLoop(self, run_id)

    def run_outputs(self, run_id: str, nodes: Sequence[str] | None = None) -> Outputs:
        """The outputs that a run has by now, of these nodes or of all."""
        return outputs_of(self.app, run_id, nodes)

    def result(self, task_id: str) -> Pending[JsonValue]:
        """A task that was published elsewhere, by its id."""
        return Pending(self, task_id, read_json)

    def close(self) -> None:
        """Close this process's connections."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
