"""Routes of tasks: how they stand, what they say, and stopping them."""

from typing import Annotated

from ditto_tasks.web.fastapi import (
    EVENTS,
    TASK_ROUTE,
    EventSourceResponse,
    LastEventId,
    Response,
    Routes,
    TaskId,
    event_stream,
    json_answer,
    problems,
)
from ditto_tasks.web.models import TaskState


def add_tasks(routes: Routes) -> None:
    """The three routes under `/tasks/{task_id}`."""
    router, service, caller = routes.router, routes.service, routes.caller
    refused = problems(401, 403, 404, 422, 503)

    @router.get("/tasks/{task_id}", name=TASK_ROUTE, response_model=TaskState, responses=refused)
    async def state(tenant: Annotated[str, caller], task_id: TaskId) -> Response:
        """How a task stands, with its result or why it failed."""
        return json_answer(200, await service.state(tenant, task_id))

    @router.get(
        "/tasks/{task_id}/events",
        name="ditto_task_events",
        response_class=EventSourceResponse,
        responses={200: EVENTS, **refused, **problems(429)},
    )
    async def events(
        tenant: Annotated[str, caller], task_id: TaskId, last_event_id: LastEventId = None
    ) -> EventSourceResponse:
        """What a running task says, as server-sent events; after the last one the stream ends."""
        return event_stream(await service.events(tenant, task_id, last_event_id))

    @router.delete(
        "/tasks/{task_id}",
        name="ditto_cancel",
        status_code=202,
        response_model=TaskState,
        responses=refused,
    )
    async def cancel(tenant: Annotated[str, caller], task_id: TaskId) -> Response:
        """Ask a task to stop; what it has committed stands."""
        return json_answer(202, await service.cancel(tenant, task_id))
