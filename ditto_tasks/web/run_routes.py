"""Routes of runs: answers, flows, graphs and loops of a tenant."""

# annotations are evaluated: FastAPI reads them, and some name what is known only when a router is made

from collections.abc import Mapping
from typing import Annotated, Final

from ditto_tasks.client import AsyncDitto
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.pipelines.run_views import RunPage, RunView
from ditto_tasks.web.fastapi import (
    LOCATION_HEADER,
    Key,
    Path,
    Query,
    Request,
    Response,
    Responses,
    Routes,
    Session,
    TaskId,
    json_answer,
    problems,
)
from ditto_tasks.web.models import TaskState
from ditto_tasks.web.run_models import ResumeBody, RunsQuery, StartBody
from ditto_tasks.web.runs import AskedRun, RunService

RUN_ROUTE: Final = "ditto_run"
GraphName = Annotated[str, Path(min_length=1, max_length=128, description="as the application registered it")]
NodeName = Annotated[str, Path(min_length=1, max_length=64)]
SVG: Final[Responses] = {
    200: {
        "description": "A picture for light and dark grounds, without scripts",
        "content": {"image/svg+xml": {"schema": {"type": "string"}}},
    }
}
# a picture that is opened as a page runs nothing and loads nothing
SVG_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


def add_runs(routes: Routes, client: AsyncDitto, graphs: Mapping[str, Graph | Loop]) -> None:
    """The routes of runs; only `graphs` can be started."""
    runs = RunService(client, routes.service, graphs)
    _add_reading(routes, runs)
    _add_content(routes, runs)
    _add_changing(routes, runs)
    if graphs:
        _add_start(routes, runs)


def _add_reading(routes: Routes, runs: RunService) -> None:
    router, caller = routes.router, routes.caller
    refused = problems(401, 403, 404, 422, 503)

    @router.get("/runs", name="ditto_runs", response_model=RunPage, responses=problems(401, 403, 422, 503))
    async def listed(tenant: Annotated[str, caller], query: Annotated[RunsQuery, Query()]) -> Response:
        """The tenant's runs, the newest first; `cursor` of a page asks for the next."""
        page = await runs.page(tenant, query.state, query.limit, query.cursor)
        return json_answer(200, to_wire(page))

    @router.get("/runs/{run_id}", name=RUN_ROUTE, response_model=RunView, responses=refused)
    async def view(tenant: Annotated[str, caller], run_id: TaskId) -> Response:
        """How a run stands, node by node; its content is in its result and its outputs."""
        return json_answer(200, to_wire(await runs.view(tenant, run_id)))

    @router.get(
        "/runs/{run_id}/graph.svg",
        name="ditto_run_graph",
        response_class=Response,
        responses={**SVG, **refused},
    )
    async def picture(tenant: Annotated[str, caller], run_id: TaskId) -> Response:
        """A run as a picture: nodes by level, states, times."""
        drawn = await runs.picture(tenant, run_id)
        return Response(drawn, 200, dict(SVG_HEADERS), media_type="image/svg+xml")


def _add_content(routes: Routes, runs: RunService) -> None:
    router, caller = routes.router, routes.caller
    refused = problems(401, 403, 404, 422, 503)

    @router.get(
        "/runs/{run_id}/outputs/{node}",
        name="ditto_run_output",
        responses={200: {"description": "What the node gave, as its type gives it"}, **refused},
    )
    async def output(tenant: Annotated[str, caller], run_id: TaskId, node: NodeName) -> Response:
        """What a node of a graph gave, once it has; a failed NodeResult is an output, too."""
        return json_answer(200, await runs.output(tenant, run_id, node))

    @router.get(
        "/runs/{run_id}/state",
        name="ditto_run_state",
        responses={200: {"description": "The loop's state, as its functions made it"}, **refused},
    )
    async def state(tenant: Annotated[str, caller], run_id: TaskId) -> Response:
        """The state of a loop, after the iterations that have ended."""
        return json_answer(200, await runs.state(tenant, run_id))


def _add_changing(routes: Routes, runs: RunService) -> None:
    router, caller = routes.router, routes.caller

    @router.delete(
        "/runs/{run_id}",
        name="ditto_run_cancel",
        status_code=202,
        response_model=RunView,
        responses=problems(401, 403, 404, 422, 503),
    )
    async def cancel(tenant: Annotated[str, caller], run_id: TaskId) -> Response:
        """Ask a run to stop: nothing new begins, what was done stands. One that has ended stays as it is."""
        return json_answer(202, to_wire(await runs.cancel(tenant, run_id)))

    @router.post(
        "/runs/{run_id}/resume",
        name="ditto_run_resume",
        status_code=202,
        response_model=RunView,
        responses=problems(401, 403, 404, 409, 410, 413, 422, 429, 503),
    )
    async def resume(
        tenant: Annotated[str, caller], run_id: TaskId, body: ResumeBody | None = None
    ) -> Response:
        """Let a graph or loop that failed or was cancelled go on; what was settled is not done again."""
        timeout_ms = None if body is None else body.timeout_ms
        return json_answer(202, to_wire(await runs.resume(tenant, run_id, timeout_ms)))


def _add_start(routes: Routes, runs: RunService) -> None:
    @routes.router.post(
        "/sessions/{session_id}/runs/{graph}",
        name="ditto_run_start",
        status_code=202,
        response_model=TaskState,
        responses={
            202: {"description": "The run is recorded", "headers": LOCATION_HEADER},
            **problems(401, 403, 404, 409, 410, 413, 422, 429, 503),
        },
    )
    async def start(
        request: Request,
        tenant: Annotated[str, routes.caller],
        session_id: Session,
        graph: GraphName,
        body: StartBody,
        idempotency_key: Key = None,
    ) -> Response:
        """Start a graph that the application registered. With the same key it is started once."""
        asked = AskedRun(tenant, session_id, graph, body.input, idempotency_key, body.timeout_ms)
        run_id = await runs.start(asked)
        location = request.url_for(RUN_ROUTE, run_id=run_id).path
        return json_answer(202, {"id": run_id, "status": "running"}, {"Location": location})
