"""Routes of the flows, one a flow: they start it, and its task tells the rest."""

# annotations are evaluated: FastAPI reads them, and some name what is known only when a router is made

from typing import Annotated

from ditto_tasks.pipelines.models import FlowName
from ditto_tasks.web.fastapi import (
    ACCEPTED,
    Query,
    Request,
    Response,
    Routes,
    Session,
    accepted,
    problems,
)
from ditto_tasks.web.flow_calls import AskedFlow
from ditto_tasks.web.flow_models import FLOW_BODIES, FlowQuery
from ditto_tasks.web.models import TaskState


def add_flow(routes: Routes, flow: FlowName) -> None:
    """The route of one flow."""
    service, caller, body_model = routes.service, routes.caller, FLOW_BODIES[flow]

    async def start(
        request: Request,
        tenant: Annotated[str, caller],
        session_id: Session,
        body: body_model,  # type: ignore[valid-type]  # known when the router is made, when FastAPI reads it
        query: Annotated[FlowQuery, Query()],
    ) -> Response:
        asked = AskedFlow(tenant, session_id, flow, body, query)
        return accepted(request, tenant, await service.flow(asked, len(await request.body())))

    routes.router.add_api_route(
        f"/sessions/{{session_id}}/flows/{flow}",
        start,
        methods=["POST"],
        name=f"ditto_flow_{flow}",
        summary=flow,
        description=body_model.__doc__,
        status_code=202,
        response_model=TaskState,
        responses={**ACCEPTED, **problems(401, 403, 410, 413, 422, 429, 500, 503)},
    )
