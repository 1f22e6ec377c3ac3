"""What routes are made of: the only file that knows FastAPI. `router.py` puts them together."""

# annotations are evaluated: FastAPI reads them, and some name what is known only when a router is made

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from ditto_tasks.client import Event
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import InvalidJson, JsonValue, decode, encode
from ditto_tasks.tenants import is_tenant
from ditto_tasks.web.failures import Refusal, invalid, invalid_field, no_tenant, refusal_of, too_large
from ditto_tasks.web.headers import HeaderError
from ditto_tasks.web.models import Problem, TaskState
from ditto_tasks.web.service import WebService, shown

__all__ = [
    "APIRouter",
    "EventSourceResponse",
    "Path",
    "Query",
    "Request",
    "Response",
]  # and what is defined here

MAX_BODY_BYTES: Final = 1024 * 1024
PING_S: Final = 15  # a silent stream says something this often, so that nothing between takes it for dead
SEND_S: Final = 30  # a reader that takes nothing for so long is gone, whatever its connection says

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
ACCEPTED: Final[Responses] = {
    202: {"model": TaskState, "description": "The task runs", "headers": LOCATION_HEADER}
}


@dataclass(frozen=True, slots=True)
class Routes:
    """A router that is being filled: what its routes ask, and whom they serve."""

    router: APIRouter
    service: WebService
    caller: object  # FastAPI's dependency that gives the tenant's name; stands in `Annotated`


def open_routes(service: WebService, tenant: Callable[..., object], max_body_bytes: int) -> Routes:
    """A router without routes, whose bodies are limited and whose errors have one form."""
    router = APIRouter(
        route_class=_route_class(service, max_body_bytes), lifespan=_closing(service), tags=["ditto"]
    )
    return Routes(router, service, Depends(_named(tenant)))


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


def event_stream(events: AsyncGenerator[Event, None]) -> EventSourceResponse:
    """The answer that sends these events; a reader that takes none for a while is let go."""
    return _EventStream(_frames(events), ping=PING_S, send_timeout=SEND_S)


class _EventStream(EventSourceResponse):
    """A reader that takes nothing is no error of the application: the connection is closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


async def _frames(events: AsyncGenerator[Event, None]) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(events):
        async for event in events:
            yield ServerSentEvent(data=encode(event.data).decode(), event=event.type, id=event.id or None)


def accepted(request: Request, tenant: str, task_id: str) -> Response:
    """The task runs; its address says how it stands."""
    location = request.url_for(TASK_ROUTE, task_id=task_id).path
    return json_answer(202, shown(tenant, task_id, None), {"Location": location})


def json_answer(status: int, body: JsonValue, headers: Mapping[str, str] = NO_HEADERS) -> Response:
    """Our own encoding: it takes every text that a context may hold. Nobody between may keep it."""
    shown_headers = {"Cache-Control": "no-store", **headers}
    return Response(encode(body), status, shown_headers, media_type="application/json")


def problems(*statuses: int) -> Responses:
    """These refusals as OpenAPI shows them."""
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
                return json_answer(refusal.status, refusal.body, refusal.headers)

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
