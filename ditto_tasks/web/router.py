"""The router that applications mount. What its routes do is in `service.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from ditto_tasks.client import AsyncDitto
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.pipelines.models import FlowName
from ditto_tasks.web.fastapi import MAX_BODY_BYTES, APIRouter, open_routes
from ditto_tasks.web.flow_calls import FlowOptionsOf, nothing_chosen
from ditto_tasks.web.flow_models import FLOW_BODIES
from ditto_tasks.web.flow_routes import add_flow
from ditto_tasks.web.models import CONTEXT_BODIES
from ditto_tasks.web.run_routes import add_runs
from ditto_tasks.web.service import WAIT_S, AnswerOptionsOf, WebService, own_memories
from ditto_tasks.web.session_routes import add_answer, add_context
from ditto_tasks.web.streams import StreamLimits
from ditto_tasks.web.task_routes import add_tasks


def create_router(
    client: AsyncDitto,
    *,
    tenant: Callable[..., object],
    answer_options: AnswerOptionsOf = own_memories,
    flows: Iterable[FlowName] = tuple(FLOW_BODIES),
    flow_options: FlowOptionsOf = nothing_chosen,
    graphs: Mapping[str, Graph | Loop] = MappingProxyType({}),
    max_body_bytes: int = MAX_BODY_BYTES,
    wait_s: float = WAIT_S,
    streams: StreamLimits = StreamLimits(),  # noqa: B008 -- it is frozen
) -> APIRouter:
    """Routes over `client`, to be included in an application under a prefix of its choice.

    `tenant` is a dependency of the application: it authenticates the request (and raises if it cannot)
    and returns the tenant's name. `answer_options` says for a tenant what the answering pipeline searches
    and which model answers; `flow_options` gives for a tenant and a flow what the caller does not choose,
    the model among it; `flows` names the flows that have a route; `graphs` are the graphs and loops
    that callers may start, by the name in the address: none without it. Bodies over `max_body_bytes` are
    refused; after `wait_s` a request answers 202; `streams` says how many streams of events a process and a
    tenant may have, and how long each lasts.
    """
    service = WebService(client, answer_options, wait_s, streams, flow_options)
    routes = open_routes(service, tenant, max_body_bytes)
    for node in CONTEXT_BODIES:
        add_context(routes, node)
    add_answer(routes)
    for flow in flows:
        add_flow(routes, flow)
    add_tasks(routes)
    add_runs(routes, client, graphs)
    return routes.router
