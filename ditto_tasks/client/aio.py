"""The client for event loops."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar, Unpack, cast, overload
from uuid import uuid4
from weakref import WeakKeyDictionary

from ditto_tasks.client.answering import cancel_answer, cancel_task, start_answer, the_request
from ditto_tasks.client.connections import open_async
from ditto_tasks.client.event_reader import EventReader
from ditto_tasks.client.flows import FlowCall, FlowMethods
from ditto_tasks.client.graphs import (
    Outputs,
    RunOptions,
    cancel_run,
    loop_state,
    nodes_of,
    resume_run,
    run_call,
    start_run,
)
from ditto_tasks.client.hub import ResultHub
from ditto_tasks.client.methods import (
    AsyncSender,
    ContextMethods,
    InferMethods,
    InteractionMethods,
    MemoryMethods,
    RetrievalMethods,
)
from ditto_tasks.client.models import Receipt, read_answer, read_json
from ditto_tasks.client.protocol import Call, Event, Finished, node_call, outcome
from ditto_tasks.client.streams import BLOCK_MS, FIRST, Entries, told_in
from ditto_tasks.client.sync import Ditto
from ditto_tasks.client.waiting import ResultReader
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.nodes import NodeType
from ditto_tasks.pipelines.graph_reading import PAGE
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.pipelines.models import Answer, AnswerOptions
from ditto_tasks.settings import Settings
from ditto_tasks.task import OPTIONS_KEY

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class AsyncPending(Generic[R_co]):
    """A call that is being published, in the order in which calls were made. Awaiting it twice is fine."""

    def __init__(
        self,
        client: AsyncDitto,
        task_id: str,
        read: Callable[[JsonValue], R_co],
        published: Future[None],
        cancel: Callable[[], None] | None = None,
    ) -> None:
        self.id = task_id
        self._client = client
        self._read = read
        self._published = published
        self._cancel = cancel or (lambda: cancel_task(client.blocking.app, task_id))

    def __await__(self) -> Generator[object, None, R_co]:
        return self.get().__await__()

    async def sent(self) -> None:
        """Return once the call was published; raises what was refused at publish."""
        await asyncio.shield(asyncio.wrap_future(self._published))

    def withdraw(self) -> bool:
        """Take the call back; False where its publishing has begun or is done."""
        return self._published.cancel()

    async def get(self, timeout: float | None = None) -> R_co:
        """The typed result. Raises the task's typed error, or TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            await self.sent()
            return outcome(await self._client.ended(self.id), self._read)

    async def events(self, after: str = FIRST) -> AsyncIterator[Event]:
        """What the task says while it runs, from the event after `after` on; ends when the task has ended."""
        await self.sent()
        watch = asyncio.ensure_future(self._client.ended(self.id))
        try:
            async with aclosing(self._client.stream(told_in(self.id), after, watch.done)) as heard:
                async for event in heard:
                    yield event
        finally:
            watch.cancel()

    async def cancel(self) -> None:
        """Ask the task to stop; what it has committed stands."""
        await self._client.in_order(self._cancel)


class AsyncPendingRun(AsyncPending[Outputs]):
    """A run of a graph."""

    def __init__(self, client: AsyncDitto, run_id: str, published: Future[None]) -> None:
        cancel = partial(_cancel_run, client, run_id)
        super().__init__(client, run_id, lambda _: {}, published, cancel)

    async def get(self, timeout: float | None = None) -> Outputs:
        """{node id: output}. Raises the run's typed error, or TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            await super().get()
            return await self.outputs()

    async def outputs(self, nodes: Sequence[str] | None = None) -> Outputs:
        """The outputs that are there by now, of these nodes or of all; it waits for none."""
        return await self._client.run_outputs(self.id, nodes)


class AsyncPendingLoop(AsyncPending[JsonValue]):
    """A run of a loop."""

    def __init__(self, client: AsyncDitto, run_id: str, published: Future[None]) -> None:
        super().__init__(client, run_id, read_json, published, partial(_cancel_run, client, run_id))

    async def get(self, timeout: float | None = None) -> JsonValue:
        """The loop's last state. Raises the run's typed error, or TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            await super().get()
            return await self.state()

    async def state(self) -> JsonValue:
        """The loop's state by now."""
        return await self._client.in_order(lambda: loop_state(self._client.blocking.app, self.id))


class AsyncDitto(FlowMethods):
    """Submits nodes and pipelines from event loops. No call blocks a loop or holds a thread.

    Publishing runs on one thread of its own, which keeps the order of calls. Each loop has one
    subscription for all that it awaits. A forked child has its own of everything. What is refused at the
    sender is raised where the call is awaited.
    """

    def __init__(self, settings: Settings | None = None, *, nodes: Iterable[NodeType] = ()) -> None:
        self.blocking = Ditto(settings, nodes=nodes)  # does the publishing, on the one thread
        self._pid = os.getpid()
        self._publisher = _publisher()
        self._hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, ResultHub] = WeakKeyDictionary()
        self.context = ContextMethods[
            AsyncPending[Receipt], AsyncPending[Context], AsyncPending[ContextSelection], AsyncPending[None]
        ](self)
        self.memory = MemoryMethods[AsyncSender](self)
        self.retrieval = RetrievalMethods[AsyncSender](self)
        self.infer = InferMethods[AsyncSender](self)
        self.interaction = InteractionMethods[AsyncSender](self)

    def send(self, call: Call[R]) -> AsyncPending[R]:
        """Publish a call after those that were made before; errors are raised where it is awaited."""
        return AsyncPending(self, call.task_id, call.read, self._submit(lambda: self._publish(call)))

    def invoke(
        self, node: str, wire: Mapping[str, object], *, ditto: Mapping[str, object] | None = None
    ) -> AsyncPending[JsonValue]:
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
    ) -> AsyncPending[Answer]:
        """Start the answering pipeline; the result's id is the pipeline's."""
        pipeline = pipeline_id or str(uuid4())

        def start() -> None:
            app = self.blocking.app
            start_answer(app, the_request(app.settings, scope, question, options), pipeline)

        def cancel() -> None:
            app = self.blocking.app
            cancel_answer(app, the_request(app.settings, scope, question, options), pipeline)

        return AsyncPending(self, pipeline, read_answer, self._submit(start), cancel)

    def start(self, call: FlowCall[R]) -> AsyncPending[R]:
        """Start a flow after what was called before; the result's id is the pipeline's."""

        def start() -> None:
            self.blocking.start(call)

        def cancel() -> None:
            cancel_answer(self.blocking.app, call.request, call.pipeline)

        return AsyncPending(self, call.pipeline, call.read, self._submit(start), cancel)

    @overload
    def run(self, graph: Graph, input: object = ..., **options: Unpack[RunOptions]) -> AsyncPendingRun: ...
    @overload
    def run(self, graph: Loop, input: object = ..., **options: Unpack[RunOptions]) -> AsyncPendingLoop: ...
    def run(
        self,
        graph: Graph | Loop,
        input: object = None,  # noqa: A002 -- as nodes call it
        **options: Unpack[RunOptions],
    ) -> AsyncPendingRun | AsyncPendingLoop:
        """Start a run of a graph, which gives {node id: output}, or of a loop, which gives its last state.

        The result's id is the run's.
        """
        call = run_call(graph, input, options)
        kind = AsyncPendingRun if isinstance(graph, Graph) else AsyncPendingLoop
        return kind(self, call.run, self._submit(lambda: start_run(self.blocking.app, call)))

    def resume(self, run_id: str, *, timeout_ms: int | None = None) -> AsyncPendingRun:
        """Let a graph's run that failed or was cancelled go on from what was settled, with a new deadline."""
        resumed = self._submit(lambda: resume_run(self.blocking.app, run_id, timeout_ms))
        return AsyncPendingRun(self, run_id, resumed)

    def resume_loop(self, run_id: str, *, timeout_ms: int | None = None) -> AsyncPendingLoop:
        """The same for a loop's run."""
        resumed = self._submit(lambda: resume_run(self.blocking.app, run_id, timeout_ms))
        return AsyncPendingLoop(self, run_id, resumed)

    async def run_outputs(self, run_id: str, nodes: Sequence[str] | None = None) -> Outputs:
        """The outputs that a run has by now, of these nodes or of all; a few at a time: they may be large."""
        wanted = await self.in_order(lambda: nodes_of(self.blocking.app, run_id, nodes))
        found: Outputs = {}
        for start in range(0, len(wanted), PAGE):
            read = partial(_read_outputs, self, run_id, wanted[start : start + PAGE])
            found |= await self.in_order(read)
        return found

    def result(self, task_id: str) -> AsyncPending[JsonValue]:
        """A task that was published elsewhere, by its id."""
        published: Future[None] = Future()
        published.set_result(None)
        return AsyncPending(self, task_id, read_json, published)

    async def ended(self, task_id: str) -> Finished:
        """The end of a task, from this loop's subscription."""
        loop = asyncio.get_running_loop()
        self._notice_fork()
        if loop not in self._hubs:
            reader, url = await self.in_order(self._reader_and_url)
            self._hubs.setdefault(loop, ResultHub(url, reader.key, reader.decode))
        return await self._hubs[loop].wait(task_id)

    async def in_order(self, work: Callable[[], R]) -> R:
        """Run blocking work on the publishing thread, after what was submitted before."""
        return await asyncio.wrap_future(self._submit(work))

    async def stream(
        self, task_ids: Sequence[str], after: str, ended: Callable[[], bool]
    ) -> AsyncGenerator[Event, None]:
        """The events of tasks on a connection of their own, until they have ended and nothing more comes."""
        url, deployment = await self.in_order(self._broker_and_deployment)
        reader, client = EventReader(deployment, task_ids, after), open_async(url, connections=1)
        try:
            while not reader.finished:
                entries = await client.xread(dict(reader.asking(ended=ended())), block=BLOCK_MS)
                for event in reader.heard(cast("Entries | None", entries)):
                    yield event
        finally:
            await client.aclose()

    async def close(self) -> None:
        """Publish what was submitted, then close this loop's and this process's connections."""
        hub = self._hubs.pop(asyncio.get_running_loop(), None)
        if hub is not None:
            await hub.close()
        await self.in_order(self.blocking.close)
        self._publisher.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _publish(self, call: Call[R]) -> None:
        self.blocking.send(call)

    def _submit(self, work: Callable[[], R]) -> Future[R]:
        self._notice_fork()
        return self._publisher.submit(copy_context().run, work)  # a trace goes on in the thread

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():  # threads and loops of the parent are not here
            self._pid, self._publisher, self._hubs = os.getpid(), _publisher(), WeakKeyDictionary()

    def _reader_and_url(self) -> tuple[ResultReader, str]:
        app = self.blocking.app
        return ResultReader(app), str(app.conf.result_backend)

    def _broker_and_deployment(self) -> tuple[str, str]:
        app = self.blocking.app
        return str(app.conf.broker_url), app.settings.connections.deployment


def _read_outputs(client: AsyncDitto, run_id: str, nodes: Sequence[str]) -> Outputs:
    return client.blocking.app.graphs.records.outputs(run_id, nodes)


def _cancel_run(client: AsyncDitto, run_id: str) -> None:
    cancel_run(client.blocking.app, run_id)


def _publisher() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="ditto-publisher")
