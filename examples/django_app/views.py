"""Async views over the service that the FastAPI router uses, too. None of them blocks the event loop."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import cache, wraps

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from pydantic import ValidationError

from ditto_tasks import AsyncDitto, DittoError
from ditto_tasks.client import Event
from ditto_tasks.json_values import encode
from ditto_tasks.web import AnswerBody, WebService, refusal_of

View = Callable[..., Awaitable[HttpResponse | StreamingHttpResponse]]


@cache
def service() -> WebService:
    """One client a process, made by its first request; its settings are the environment's."""
    return WebService(AsyncDitto())


def tenant_of(request: HttpRequest) -> str | None:
    """Whose token the request has. Compared in constant time. A real project has its own way."""
    given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
    tokens = settings.TENANT_TOKENS.items()
    return next((tenant for tenant, token in tokens if hmac.compare_digest(token.encode(), given)), None)


def for_tenant(view: View) -> View:
    """Calls the view with the tenant of the request's token, and answers typed errors."""

    @wraps(view)
    async def checked(request: HttpRequest, **path: str) -> HttpResponse | StreamingHttpResponse:
        tenant = tenant_of(request)
        if tenant is None:
            return JsonResponse({"error": {"code": "UNAUTHENTICATED"}}, status=401)
        try:
            return await view(request, tenant, **path)
        except DittoError as error:
            refusal = refusal_of(error)
            return JsonResponse(refusal.body, status=refusal.status, headers=dict(refusal.headers))

    return checked


@require_POST
@for_tenant
async def answer(request: HttpRequest, tenant: str, session: str) -> HttpResponse:
    """Start to answer a question."""
    try:
        body = AnswerBody.model_validate_json(request.body)
    except ValidationError as problem:
        reason = problem.errors(include_input=False, include_url=False)[0]["msg"]
        return JsonResponse({"error": {"code": "INVALID_INPUT", "message": reason}}, status=422)
    task_id = await service().answer(tenant, session, body)
    return JsonResponse({"id": task_id, "status": "running"}, status=202)


@require_http_methods(["GET", "DELETE"])
@for_tenant
async def task(request: HttpRequest, tenant: str, task: str) -> HttpResponse:
    """How a task stands; DELETE asks it to stop."""
    if request.method == "DELETE":
        return JsonResponse(await service().cancel(tenant, task), status=202)
    return JsonResponse(await service().state(tenant, task))


@require_GET
@for_tenant
async def events(request: HttpRequest, tenant: str, task: str) -> StreamingHttpResponse:
    """What a task says, as server-sent events."""
    heard = await service().events(tenant, task, request.headers.get("Last-Event-ID"))
    return StreamingHttpResponse(frames(heard), content_type="text/event-stream")


async def frames(heard: AsyncGenerator[Event, None]) -> AsyncIterator[bytes]:
    """Events in the form that EventSource reads."""
    async with aclosing(heard):  # a reader who leaves gives its place and its connection back at once
        async for event in heard:
            number = f"id: {event.id}\n" if event.id else ""
            yield f"{number}event: {event.type}\ndata: {encode(event.data).decode()}\n\n".encode()
