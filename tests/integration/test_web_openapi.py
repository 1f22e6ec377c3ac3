"""The schema of the router's routes, and what the routes are made of, without any server."""

import asyncio
import json
import re

import httpx
import pytest
from fastapi import FastAPI

from ditto_tasks.client import AsyncDitto
from ditto_tasks.nodes import NODES
from ditto_tasks.pipelines.flow_models import INPUTS
from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.settings import default_settings
from ditto_tasks.web import create_router
from ditto_tasks.web.flow_models import FLOW_BODIES
from ditto_tasks.web.models import CONTEXT_BODIES

NOT_THE_BODYS = {"scope", "expected_version", "context"}
ROUTES = {
    "/sessions/{session_id}/context/load": {"post"},
    "/sessions/{session_id}/context/select": {"post"},
    "/sessions/{session_id}/context/update": {"post"},
    "/sessions/{session_id}/context/compress": {"post"},
    "/sessions/{session_id}/answer": {"post"},
    **{f"/sessions/{{session_id}}/flows/{flow}": {"post"} for flow in FLOW_BODIES},
    "/tasks/{task_id}": {"get", "delete"},
    "/tasks/{task_id}/events": {"get"},
    "/runs": {"get"},
    "/runs/{run_id}": {"get", "delete"},
    "/runs/{run_id}/graph.svg": {"get"},
    "/runs/{run_id}/outputs/{node}": {"get"},
    "/runs/{run_id}/state": {"get"},
    "/runs/{run_id}/resume": {"post"},
}
START = "/sessions/{session_id}/runs/{graph}"
GRAPH = Graph("g", [GraphNode("a", "CONTEXT.LOAD", input={"sources": []})])
OPEN = ("/outputs/{node}", "/state", ".svg", "/events")  # what they answer is of no model


@pytest.fixture(scope="module")
def schema():
    app = FastAPI()
    app.include_router(create_router(AsyncDitto(default_settings({})), tenant=lambda: "ann"))
    return app.openapi()


def operations(schema):
    return [
        (method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def test_a_router_without_authentication_cannot_be_made():
    """The application's dependency is a required argument."""
    with pytest.raises(TypeError, match="tenant"):
        create_router(AsyncDitto(default_settings({})))


def test_the_schema_has_every_route_and_no_other(schema):
    """The addresses of the specification, CONTEXT's four nodes and the six flows one by one."""
    assert {path: set(methods) for path, methods in schema["paths"].items()} == ROUTES


def test_bodies_have_the_fields_of_their_nodes():
    """A body has its node's input but for the scope and the version, which the address and headers give."""
    for node, body in CONTEXT_BODIES.items():
        assert set(body.model_fields) == set(NODES[node].input_model.model_fields) - NOT_THE_BODYS, node
    assert set(CONTEXT_BODIES) == {row.name for row in NODES.values() if row.domain == "CONTEXT"}


def test_bodies_of_flows_have_the_fields_of_their_inputs(schema):
    """All but the context, which is the session's, and the model, which the application chooses."""
    assert set(FLOW_BODIES) == set(INPUTS)
    for flow, body in FLOW_BODIES.items():
        assert set(body.model_fields) == set(INPUTS[flow].model_fields) - {"context", "model"}, flow
    shown = schema["components"]["schemas"]
    assert shown["ToolBody"]["properties"]["call"]["$ref"].endswith("/ToolCall")
    assert shown["ToolBody"]["required"] == ["call"]
    assert {"messages", "actions", "generation", "limits"} <= shown["ReactBody"]["properties"].keys()
    react = schema["paths"]["/sessions/{session_id}/flows/react"]["post"]
    assert {"202", "401", "403", "410", "413", "422", "429", "503"} <= react["responses"].keys()
    assert "Location" in react["responses"]["202"]["headers"]
    assert {parameter["name"] for parameter in react["parameters"]} == {"session_id", "timeoutMs"}


def test_every_answer_has_a_model(schema):
    """Each JSON answer names a model, each failure the one of failures, and every reference resolves."""
    for method, path, operation in operations(schema):
        for status, answer in operation["responses"].items():
            if path.endswith(OPEN) and status == "200":
                continue
            reference = answer["content"]["application/json"]["schema"]["$ref"]
            expected = (
                {"Problem"} if int(status) >= 400 else {"ContextAnswer", "TaskState", "RunPage", "RunView"}
            )
            assert reference.rpartition("/")[2] in expected, (method, path, status)
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schema)))
    assert references <= schema["components"]["schemas"].keys()


def test_only_registered_graphs_have_a_route(schema):
    """The route that starts graphs is there once an application registers one; a picture is told as such."""
    app = FastAPI()
    client = AsyncDitto(default_settings({}))
    app.include_router(create_router(client, tenant=lambda: "ann", graphs={"mine": GRAPH}))
    paths = app.openapi()["paths"]
    assert paths.keys() - schema["paths"].keys() == {START}
    start = paths[START]["post"]
    assert {"202", "401", "403", "404", "410", "413", "422", "429", "503"} <= start["responses"].keys()
    assert "Location" in start["responses"]["202"]["headers"]
    assert "idempotency-key" in {parameter["name"].lower() for parameter in start["parameters"]}
    picture = paths["/runs/{run_id}/graph.svg"]["get"]["responses"]["200"]
    assert list(picture["content"]) == ["image/svg+xml"]
    listed = {parameter["name"] for parameter in paths["/runs"]["get"]["parameters"]}
    assert listed == {"state", "limit", "cursor"}


def test_the_schema_tells_of_every_refusal(schema):
    """Statuses, Retry-After, ETag, Location and the headers of requests stand in the schema."""
    update = schema["paths"]["/sessions/{session_id}/context/update"]["post"]
    assert {"200", "202", "401", "404", "409", "413", "422", "429", "503"} <= update["responses"].keys()
    assert "Retry-After" in update["responses"]["429"]["headers"]
    assert "ETag" in update["responses"]["409"]["headers"]
    assert "Location" in update["responses"]["202"]["headers"]
    named = {parameter["name"].lower() for parameter in update["parameters"]}
    assert {"session_id", "if-match", "idempotency-key", "prefer", "onmissing", "turnid"} <= named
    events = schema["paths"]["/tasks/{task_id}/events"]["get"]
    assert "last-event-id" in {parameter["name"].lower() for parameter in events["parameters"]}


def test_bodies_are_described_down_to_their_items(schema):
    """The body of UPDATE refers to the model of items, that of LOAD to all three kinds of sources."""
    models = schema["components"]["schemas"]
    assert models["UpdateBody"]["properties"]["add"]["items"]["$ref"].endswith("/ContextItem")
    sources = json.dumps(models["LoadBody"]["properties"]["sources"])
    assert all(kind in sources for kind in ("ContextItem", "ContextMessage", "ContextReference"))


@pytest.mark.parametrize("name", [None, "", "a:b", "a b", 7, b"ann"])
def test_whoever_belongs_to_no_tenant_is_refused(name):
    """403 on every route for whatever the application's dependency returns that is no tenant's name."""

    async def statuses():
        app = FastAPI()
        app.include_router(create_router(AsyncDitto(default_settings({})), tenant=lambda: name))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            asked = [(method, path) for path, methods in ROUTES.items() for method in methods]
            return {
                (await http.request(method, path, json={"question": "?", "purpose": "infer"})).status_code
                for method, path in asked
            }

    assert asyncio.run(statuses()) == {403}
