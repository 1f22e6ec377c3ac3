"""A tenant's runs apart from HTTP: lists, views, pictures, outputs, start, cancel and resume."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import uuid4

from ditto_tasks.canonical import canonical_json
from ditto_tasks.celery import DittoCelery
from ditto_tasks.client import AsyncDitto
from ditto_tasks.client.controlling import cancel, resume, view_of
from ditto_tasks.client.graphs import RunOptions, loop_state
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.pipelines.run_svg import draw
from ditto_tasks.pipelines.run_views import RunPage, RunView, RunViewState
from ditto_tasks.tenants import tenant_session
from ditto_tasks.web.service import WebService, answered, as_seen

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A request to start a graph that the application registered."""

    tenant: str
    session: str
    graph: str
    input: JsonValue = None
    key: str | None = None  # the same key again means the same run
    timeout_ms: int | None = None

    @property
    def run_id(self) -> str:
        if self.key is None:
            return str(uuid4())
        known = canonical_json([self.tenant, self.session, self.graph, self.key])
        return f"run-{hashlib.sha256(known.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class RunService:
    """Runs of tenants over one client. What the application did not register cannot be started."""

    def __init__(self, client: AsyncDitto, service: WebService, graphs: Mapping[str, Graph | Loop]) -> None:
        self._client = client
        self._service = service
        self._graphs = dict(graphs)

    async def start(self, asked: AskedRun) -> str:
        """Start a run on a tenant's session; its id."""
        graph = self._graphs.get(asked.graph)
        if graph is None:
            raise DittoError("NOT_FOUND", "there is no such graph")
        scope: JsonObject = {"sessionId": tenant_session(asked.tenant, asked.session)}
        # two calls, since a client's `run` gives another type for each
        options = RunOptions(scope=scope, run_id=asked.run_id, timeout_ms=asked.timeout_ms)
        if isinstance(graph, Graph):
            return await self._service.published(self._client.run(graph, asked.input, **options))
        return await self._service.published(self._client.run(graph, asked.input, **options))

    async def page(
        self, tenant: str, states: Sequence[RunViewState], limit: int, cursor: str | None
    ) -> RunPage:
        """A tenant's runs, the newest first."""
        return await self._read(
            lambda app: app.run_records.list(tenant=tenant, states=states, limit=limit, cursor=cursor)
        )

    async def view(self, tenant: str, run_id: str) -> RunView:
        """How a tenant's run stands."""
        await self._service.must_own(tenant, run_id)
        return await self._read(lambda app: view_of(app, run_id))

    async def picture(self, tenant: str, run_id: str) -> str:
        """A tenant's run as an SVG picture."""
        await self._service.must_own(tenant, run_id)
        return await self._read(lambda app: draw(view_of(app, run_id)))

    async def output(self, tenant: str, run_id: str, node: str) -> JsonValue:
        """What a node of a tenant's graph gave; NOT_FOUND while it has given nothing."""
        await self._service.must_own(tenant, run_id)
        found = await self._read(lambda app: app.graphs.records.outputs(run_id, [node]))
        if node not in found:
            raise DittoError("NOT_FOUND", "the run has no output of this node")
        return as_seen(tenant, found[node])

    async def state(self, tenant: str, run_id: str) -> JsonValue:
        """The state of a tenant's loop by now."""
        await self._service.must_own(tenant, run_id)
        return await self._read(lambda app: loop_state(app, run_id))

    async def cancel(self, tenant: str, run_id: str) -> RunView:
        """Ask a tenant's run to stop; how it stands."""
        await self._change(tenant, run_id, cancel)
        return await self.view(tenant, run_id)

    async def resume(self, tenant: str, run_id: str, timeout_ms: int | None) -> RunView:
        """Let a tenant's run go on; how it stands."""
        await self._change(tenant, run_id, lambda app, run: resume(app, run, timeout_ms))
        return await self.view(tenant, run_id)

    async def _change(self, tenant: str, run_id: str, act: Callable[[DittoCelery, RunView], None]) -> None:
        await self._service.must_own(tenant, run_id)

        def change() -> None:
            app = self._client.blocking.app
            act(app, view_of(app, run_id))

        await answered(self._client.in_order(change))

    async def _read(self, work: Callable[[DittoCelery], T]) -> T:
        """What `work` reads, in a thread: a long list holds neither the loop nor publishing up."""
        app = await self._client.in_order(lambda: self._client.blocking.app)
        return await answered(asyncio.to_thread(work, app))
