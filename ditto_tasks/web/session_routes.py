"""Routes of sessions: CONTEXT's nodes, and the answering pipeline."""

# annotations are evaluated: FastAPI reads them, and some name what is known only when a router is made

from typing import Annotated

from ditto_tasks.json_values import JsonValue
from ditto_tasks.web.fastapi import (
    ACCEPTED,
    ETAG_HEADER,
    IfMatch,
    Key,
    Prefer,
    Query,
    Request,
    Response,
    Routes,
    Session,
    accepted,
    json_answer,
    problems,
)
from ditto_tasks.web.headers import etag, expected_version, prefers_async
from ditto_tasks.web.models import CONTEXT_BODIES, CONTEXT_QUERIES, AnswerBody, ContextAnswer, TaskState
from ditto_tasks.web.service import ContextCall, as_seen


def add_context(routes: Routes, node: str) -> None:
    """The route of one CONTEXT node."""
    router, service, caller = routes.router, routes.service, routes.caller
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
            return accepted(request, tenant, task_id)
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
            **ACCEPTED,
            **problems(401, 403, 404, 409, 410, 413, 422, 429, 500, 503, 504),
        },
    )


def add_answer(routes: Routes) -> None:
    """The route of the answering pipeline."""
    service, caller = routes.service, routes.caller

    @routes.router.post(
        "/sessions/{session_id}/answer",
        name="ditto_answer",
        status_code=202,
        response_model=TaskState,
        responses={**ACCEPTED, **problems(401, 403, 410, 413, 422, 429, 503)},
    )
    async def answer(
        request: Request, tenant: Annotated[str, caller], session_id: Session, body: AnswerBody
    ) -> Response:
        """Start the answering pipeline. Its task tells of its steps, and ends with the answer."""
        return accepted(request, tenant, await service.answer(tenant, session_id, body))


def _context_answer(tenant: str, task_id: str, result: JsonValue) -> Response:
    seen = as_seen(tenant, result)
    told = seen if isinstance(seen, dict) else {}
    known = {name: value for name, value in told.items() if value is not None}
    version = known.get("version")
    return json_answer(
        200, {"taskId": task_id, **known}, {"ETag": etag(version)} if isinstance(version, str) else {}
    )
