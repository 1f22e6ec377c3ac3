"""The router: the only file that knows FastAPI. What the routes do is in `service.py`."""

# annotations are evaluated: FastAPI reads them, and some name what is known only when a router is made

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sse_starlette import EventSourceResponse, ServerSentEvent

from ditto_tasks.client import AsyncDitto, Event
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import InvalidJson, JsonValue, decode, encode
from ditto_tasks.tenants import is_tenant
from ditto_tasks.web.failures import Refusal, invalid, invalid_field, no_tenant, refusal_of, too_large
from ditto_tasks.web.headers import HeaderError, etag, expected_version, prefers_async
from ditto_tasks.web.models import (
    CONTEXT_BODIES,
    CONTEXT_QUERIES,
    AnswerBody,
    ContextAnswer,
    Problem,
    TaskState,
)
from ditto_tasks.web.service import (
    WAIT_S,
    AnswerOptionsOf,
    ContextCall,
    WebService,
    as_seen,
    own_memories,
    shown,
)

MAX_BODY_BYTES: Final = 1024 * 1024
PING_S: Final = 15  # a silent stream says something this often, so that nothing between takes it for dead

Session = Annotated[str, Path(min_length=1, max_length=512, description="the tenant's own name of a session")]
TaskId = Annotated[str, Path(min_length=1, max_length=128)]
IfMatch = Annotated[str | None, Header(description="the ETag of the version that must still stand")]
Key = Annotated[str | None, Header(min_length=1, max_length=255, description="repeating is safe with it")]
Prefer = Annotated[str | None, Header(description="`respond-async`: do not wait for the task")]
LastEventId = Annotated[str | None, Header(description="the last event that was heard")]

Responses = dict[int | str, dict[str, object]]
RETRY_HEADER: Final = {"Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}}
ETAG_HEADER: Final = {"ETag": {"schema": {"type": "string"}, "description": "the version that stands"}}
LOCATION_HEADER: Final = {"Location": {"schema": {"type": "string"}, "description": "the task"}}
TASK_ROUTE: Final = "ditto_task"
NO_HEADERS: Final[Mapping[str, str]] = {}
EVENTS: Final[dict[str, object]] = {
    "description": "Events `step`, `pipeline`, `text_delta` and others; `end` holds the task's state",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
DESCRIPTIONS: Final[Mapping[int, str]] = {
    401: "Not authenticated, as the application says",
    403: "The caller belongs to no tenant",
    404: "No such task of this tenant",
    409: "The state or the operation is another one than the request says; the current version",
    410: "The session or its tenant was erased",
    413: "The body is too large",
    422: "Invalid; the path names the field",
    429: "Too many calls wait for this session",
    500: "The task failed",
    503: "The broker or the state store cannot be reached",
    504: "The deadline of the call has passed",
}
_ACCEPTED: Final[Responses] = {
    202: {"model": TaskState, "description": "The task runs", "headers": LOCATION_HEADER}
}


def create_router(
    client: AsyncDitto,
    *,
    tenant: Callable[..., object],
    answer_options: AnswerOptionsOf = own_memories,
    max_body_bytes: int = MAX_BODY_BYTES,
    wait_s: float = WAIT_S,
) -> APIRouter:
    """Routes over `client`, to be included in an application under a prefix of its choice.

    `tenant` is a dependency of the application: it authenticates the request (and raises if it cannot)
    and returns the tenant's name. `answer_options` says for a tenant what the answering pipeline searches
    and which model answers. Bodies over `max_body_bytes` are refused; after `wait_s` a request answers 202.
    """
    service = WebService(client, answer_options, wait_s)
    router = APIRouter(
        route_class=_route_class(service, max_body_bytes), lifespan=_closing(service), tags=["ditto"]
    )
    caller = Depends(_named(tenant))
    for node in CONTEXT_BODIES:
        _add_context(router, service, caller, node)
    _add_answer(router, service, caller)
    _add_tasks(router, service, caller)
    return router


def _named(tenant: Callable[..., object]) -> Callable[..., Awaitable[str]]:
    async def named(name: Annotated[object, Depends(tenant)]) -> str:
        if not isinstance(name, str) or not is_tenant(name):
            raise no_tenant()
        return name

    return named


def _closing(service: WebService) -> Callable[[object], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await service.close()

    return lifespan


def _add_context(router: APIRouter, service: WebService, caller: object, node: str) -> None:
    name = node.rpartition(".")[2].lower()
    body_model, query_model = CONTEXT_BODIES[node], CONTEXT_QUERIES[node]

    async def call(
        request: Request,
        tenant: Annotated[str, caller],
        session_id: Session,
        body: body_model,  # type: ignore[valid-type]  # known when the router is made, when FastAPI reads it
        query: Annotated[query_model, Query()],  # type: ignore[valid-type]  # the same
        if_match: IfMatch = None,
        idempotency_key: Key = None,
        prefer: Prefer = None,
    ) -> Response:
        version = expected_version(if_match)
        asked = ContextCall(tenant, session_id, node, body, query, version, idempotency_key)
        task_id = await service.submit(asked, len(await request.body()))
        end = await service.end(task_id, wait=not prefers_async(prefer))
        if end is None:
            return _accepted(request, tenant, task_id)
        if end.error is not None:
            raise end.error
        return _context_answer(tenant, task_id, end.result)

    router.add_api_route(
        f"/sessions/{{session_id}}/context/{name}",
        call,
        methods=["POST"],
        name=f"ditto_context_{name}",
        summary=node,
        description=body_model.__doc__,
        response_model=ContextAnswer,
        responses={
            200: {"headers": ETAG_HEADER},
            **_ACCEPTED,
            **_problems(401, 403, 404, 409, 410, 413, 422, 429, 500, 503, 504),
        },
    )


def _add_answer(router: APIRouter, service: WebService, caller: object) -> None:
    @router.post(
        "/sessions/{session_id}/answer",
        name="ditto_answer",
        status_code=202,
        response_model=TaskState,
        responses={**_ACCEPTED, **_problems(401, 403, 413, 422, 429, 503)},
    )
    async def answer(
        request: Request, tenant: Annotated[str, caller], session_id: Session, body: AnswerBody
    ) -> Response:
        """Start the answering pipeline. Its task tells of its steps, and ends with the answer."""
        return _accepted(request, tenant, await service.answer(tenant, session_id, body))


def _add_tasks(router: APIRouter, service: WebService, caller: object) -> None:
    problems = _problems(401, 403, 404, 422, 503)

    @router.get("/tasks/{task_id}", name=TASK_ROUTE, response_model=TaskState, responses=problems)
    async def state(tenant: Annotated[str, caller], task_id: TaskId) -> Response:
        """How a task stands, with its result or why it failed."""
        return _json(200, await service.state(tenant, task_id))

    @router.get(
        "/tasks/{task_id}/events",
        name="ditto_task_events",
        response_class=EventSourceResponse,
        responses={200: EVENTS, **problems},
    )
    async def events(
        tenant: Annotated[str, caller], task_id: TaskId, last_event_id: LastEventId = None
    ) -> EventSourceResponse:
        """What a running task says, as server-sent events; after the last one the stream ends."""
        heard = await service.events(tenant, task_id, last_event_id)
        return EventSourceResponse(_frames(heard), ping=PING_S)

    @router.delete(
        "/tasks/{task_id}",
        name="ditto_cancel",
        status_code=202,
        response_model=TaskState,
        responses=problems,
    )
    async def cancel(tenant: Annotated[str, caller], task_id: TaskId) -> Response:
        """Ask a task to stop; what it has committed stands."""
        return _json(202, await service.cancel(tenant, task_id))


async def _frames(events: AsyncGenerator[Event, None]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        async for event in events:
            yield ServerSentEvent(data=encode(event.data).decode(), event=event.type, id=event.id or None)


def _accepted(request: Request, tenant: str, task_id: str) -> Response:
    location = request.url_for(TASK_ROUTE, task_id=task_id).path
    return _json(202, shown(tenant, task_id, None), {"Location": location})


def _context_answer(tenant: str, task_id: str, result: JsonValue) -> Response:
    seen = as_seen(tenant, result)
    told = seen if isinstance(seen, dict) else {}
    known = {name: value for name, value in told.items() if value is not None}
    version = known.get("version")
    return _json(
        200, {"taskId": task_id, **known}, {"ETag": etag(version)} if isinstance(version, str) else {}
    )


def _json(status: int, body: JsonValue, headers: Mapping[str, str] = NO_HEADERS) -> Response:
    """Our own encoding: it takes every text that a context may hold. Nobody between may keep it."""
    shown_headers = {"Cache-Control": "no-store", **headers}
    return Response(encode(body), status, shown_headers, media_type="application/json")


def _problems(*statuses: int) -> Responses:
    retried = {429, 503}
    return {
        status: {
            "model": Problem,
            "description": DESCRIPTIONS[status],
            **({"headers": RETRY_HEADER} if status in retried else {}),
            **({"headers": ETAG_HEADER} if status == 409 else {}),
        }
        for status in statuses
    }


class _TooLarge(HTTPException):
    """Passes through FastAPI's reading of bodies, which hides all other errors."""

    def __init__(self) -> None:
        super().__init__(413)


class _LimitedRequest(Request):
    """A request whose body has a limit, and is read as strictly as every other input."""

    service: WebService
    max_body_bytes: int

    async def stream(self) -> AsyncGenerator[bytes, None]:
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self.max_body_bytes:
            raise _TooLarge
        size = 0
        async for chunk in super().stream():
            size += len(chunk)
            if size > self.max_body_bytes:
                raise _TooLarge
            yield chunk

    async def json(self) -> object:
        """The decoded body, or why it could not be decoded: the body's model tells the caller, once known."""
        body = await self.body()
        try:
            return await self.service.aside(partial(decode, body), len(body))
        except InvalidJson as problem:
            return problem


def _route_class(service: WebService, max_body_bytes: int) -> type[APIRoute]:
    class Route(APIRoute):
        """Answers errors of this package in one form; those of the application pass."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[None, None, Response]]:
            handle = super().get_route_handler()

            async def answer(request: Request) -> Response:
                limited = _LimitedRequest(request.scope, request.receive)
                limited.service, limited.max_body_bytes = service, max_body_bytes
                try:
                    return await handle(limited)
                except REFUSED as error:
                    refusal = _refusal(error, max_body_bytes)
                return _json(refusal.status, refusal.body, refusal.headers)

            return answer

    return Route


def _refusal(error: Exception, max_body_bytes: int) -> Refusal:
    match error:
        case DittoError():
            return refusal_of(error)
        case RequestValidationError():
            return invalid_field(error.errors())
        case HeaderError():
            return invalid("header", error.name, error.reason)
    return refusal_of(too_large(max_body_bytes))


REFUSED: Final = (DittoError, RequestValidationError, HeaderError, _TooLarge)
