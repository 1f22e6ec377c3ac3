"""What the routes do, apart from HTTP: one tenant's calls, tasks and events. Nothing blocks the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar, cast
from weakref import finalize

from kombu.exceptions import OperationalError

from ditto_tasks.client import AsyncDitto, AsyncPending, Event
from ditto_tasks.client.connections import CONNECTION_ERRORS
from ditto_tasks.client.controlling import cancel
from ditto_tasks.client.models import read_json
from ditto_tasks.client.protocol import Call, Finished, node_call
from ditto_tasks.errors import ContextError, DittoError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import from_wire
from ditto_tasks.nodes import NODES
from ditto_tasks.pipelines.models import AnswerOptions, Search
from ditto_tasks.task import OPTIONS_KEY
from ditto_tasks.tenants import session_within, tenant_session
from ditto_tasks.web.failures import failure_of, not_found, status_of_task, unavailable
from ditto_tasks.web.flow_calls import AskedFlow, FlowOptionsOf, nothing_chosen
from ditto_tasks.web.following import STREAMS, follow
from ditto_tasks.web.headers import last_event
from ditto_tasks.web.lookup import TaskLookup
from ditto_tasks.web.models import AnswerBody, Body, CallQuery
from ditto_tasks.web.streams import OpenStream, OpenStreams, StreamLimits

PUBLISH_S: Final = 8.0  # longer than connecting may take; a caller who is told 503 comes again
LARGE_BYTES: Final = 64 * 1024  # less is decoded and checked within a few milliseconds
WAIT_S: Final = 10.0  # how long a request waits for its task before it gets the task's address
AWAY: Final = (OperationalError, TimeoutError, *CONNECTION_ERRORS)

T = TypeVar("T")
AnswerOptionsOf = Callable[[str], AnswerOptions]


def own_memories(tenant: str) -> AnswerOptions:
    """Search the memories of the tenant's namespace, and no others."""
    return {"searches": [Search(input={"filter": {"namespace": tenant}})]}


@dataclass(frozen=True, slots=True)
class ContextCall:
    """A request for a CONTEXT node."""

    tenant: str
    session: str
    node: str
    body: Body
    query: CallQuery
    expected_version: str | None = None
    operation_id: str | None = None

    def ready(self) -> Call[JsonValue]:
        """The call, checked as the node will check it; INVALID_INPUT names the path in the body."""
        wire: JsonObject = {**self.body.given(), "scope": self._scope()}
        if self.expected_version is not None:
            wire["expectedVersion"] = self.expected_version
        model = NODES[self.node].input_model
        if model is not None:
            from_wire(model, wire, error=ContextError)
        options: JsonObject = {**self.query.options(), "reply": "receipt"}
        if self.operation_id is not None:
            options["operationId"] = self.operation_id
        return node_call(self.node, {**wire, OPTIONS_KEY: options}, read_json)

    def _scope(self) -> JsonObject:
        return {"sessionId": tenant_session(self.tenant, self.session), **self.query.ids()}


class WebService:
    """Tasks of tenants over one client, which stays its owner's to close. Knows no web framework."""

    def __init__(
        self,
        client: AsyncDitto,
        answer_options: AnswerOptionsOf = own_memories,
        wait_s: float = WAIT_S,
        streams: StreamLimits = StreamLimits(),  # noqa: B008 -- it is frozen
        flow_options: FlowOptionsOf = nothing_chosen,
    ) -> None:
        self._client = client
        self._answer_options = answer_options
        self._flow_options = flow_options
        self._wait_s = wait_s
        self._streams = OpenStreams(streams)
        self._lookup = TaskLookup(client)
        # one for all: several threads at work would take turns with the loop, and it would wait for each
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ditto-bodies")

    async def aside(self, work: Callable[[], T], size: int) -> T:
        """What `work` gives; off the loop where it is about as many bytes as take a while."""
        if size < LARGE_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._aside, work)

    async def submit(self, call: ContextCall, size: int = 0) -> str:
        """Publish the call, whose body has `size` bytes; its task's id. Raises what is refused at publish."""
        return await self.published(self._client.send(await self.aside(call.ready, size)))

    async def answer(self, tenant: str, session: str, body: AnswerBody) -> str:
        """Start the answering pipeline; its id."""
        asked = {name: getattr(body, name) for name in body.model_fields_set - {"question"}}
        options = cast("AnswerOptions", {**self._answer_options(tenant), **asked})
        scope: JsonObject = {"sessionId": tenant_session(tenant, session)}
        return await self.published(self._client.answer(scope, body.question, **options))

    async def flow(self, asked: AskedFlow, size: int = 0) -> str:
        """Start a flow, whose body has `size` bytes; its id. Raises what is refused at the start."""
        chosen = self._flow_options(asked.tenant, asked.flow)
        call = await self.aside(lambda: asked.ready(chosen), size)
        return await self.published(self._client.start(call))

    async def end(self, task_id: str, *, wait: bool) -> Finished | None:
        """The end of a task, waited for if so wanted; None if it runs for longer."""
        if not wait:
            return None
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._client.ended(task_id)
        except TimeoutError:
            return None

    async def state(self, tenant: str, task_id: str) -> JsonObject:
        """How a tenant's task stands."""
        await self.must_own(tenant, task_id)
        return shown(tenant, task_id, await answered(self._lookup.end(task_id)))

    async def events(
        self, tenant: str, task_id: str, last_event_id: str | None
    ) -> AsyncGenerator[Event, None]:
        """What a tenant's task says, after the event with this id; the last event is `end`, its state."""
        after = last_event(last_event_id, STREAMS)
        await self.must_own(tenant, task_id)
        place = self._streams.enter(tenant)
        events = self._follow(tenant, task_id, after, place)
        finalize(events, place.leave)  # a reader that left before the first event runs no `finally`
        return events

    async def cancel(self, tenant: str, task_id: str) -> JsonObject:
        """Ask a tenant's task to stop; how it stands."""
        await self.must_own(tenant, task_id)
        await answered(self._client.in_order(lambda: self._cancel(task_id)))
        return await self.state(tenant, task_id)

    async def close(self) -> None:
        """Close this loop's own connections, for good."""
        await self._lookup.close()
        self._aside.shutdown(wait=False)

    async def _follow(
        self, tenant: str, task_id: str, after: str, place: OpenStream
    ) -> AsyncGenerator[Event, None]:
        """Without `end` where the server goes away or time is up: its reader comes again, and goes on."""
        try:
            async with aclosing(
                follow(self._client, task_id, after, place.streams.limits.longest_s)
            ) as heard:
                async for said in heard:
                    yield said if isinstance(said, Event) else Event("", "end", shown(tenant, task_id, said))
        except CONNECTION_ERRORS:
            return
        finally:
            place.leave()

    async def must_own(self, tenant: str, task_id: str) -> None:
        """Raise the same for a task of another tenant and for one that never was."""
        if await answered(self._lookup.tenant(task_id)) != tenant:
            raise not_found()

    async def published(self, pending: AsyncPending[T]) -> str:
        """The id of a call once it was published; raises what was refused."""
        try:
            await answered(pending.sent())
        except DittoError:
            pending.withdraw()
            raise
        return pending.id

    def _cancel(self, task_id: str) -> None:
        app = self._client.blocking.app
        run = app.run_records.load(task_id)
        if run is None:
            app.coordination.cancel(task_id)
        else:
            cancel(app, run)


async def answered(work: Awaitable[T]) -> T:
    """What a server answers in time; unreachable ones are a typed error without an address."""
    try:
        async with asyncio.timeout(PUBLISH_S):
            return await work
    except AWAY as exc:
        raise unavailable() from exc


def shown(tenant: str, task_id: str, end: Finished | None) -> JsonObject:
    """A task's state as its tenant sees it."""
    if end is None:
        return {"id": task_id, "status": "running"}
    if end.error is None:
        return {"id": task_id, "status": "success", "result": as_seen(tenant, end.result)}
    error = end.error if isinstance(end.error, DittoError) else DittoError("TASK_FAILED", "the task failed")
    return {"id": task_id, "status": status_of_task(error), "error": failure_of(error)}


def as_seen(tenant: str, result: JsonValue) -> JsonValue:
    """A result with the session's id as the tenant knows it, without the prefix."""
    scope = result.get("scope") if isinstance(result, Mapping) else None
    session = scope.get("sessionId") if isinstance(scope, Mapping) else None
    if not isinstance(session, str):
        return result
    return {
        **cast(JsonObject, result),
        "scope": {**cast(JsonObject, scope), "sessionId": session_within(tenant, session)},
    }
