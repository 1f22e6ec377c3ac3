"""The flows over HTTP, on a real server with a real worker: started, followed, and refused."""

import json
from uuid import uuid4

import pytest
from support.flows import flow_deployment, says, wants
from support.polling import eventually
from support.web import ANN, BOB, application, browsing, server_sent, serving

WAIT_S = 60.0
ITEMS = [{"id": "a", "content": "the sky is blue"}, {"id": "b", "content": "grass is green"}]
CALL = {"id": "c1", "name": "upper", "arguments": {"text": "hi"}}
ACTION = {"name": "upper", "inputSchema": {"type": "object"}}
MESSAGES = [{"role": "user", "content": "shout"}]
MODEL = {"model": "m"}


def chosen(tenant, flow):
    """What the application chooses: a model for ann and one item at most, nothing for others."""
    if tenant != "ann":
        return {}
    return {"rag": {"limit": 1}, "react": {"model": MODEL}, "summarize": {"model": MODEL}}.get(flow, {})


@pytest.fixture(scope="module")
def running():
    with flow_deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def url(running):
    app = application(running.settings, flow_options=chosen, max_body_bytes=64 * 1024)
    with serving(app) as address:
        yield address


@pytest.fixture
def ann(url):
    with browsing(url, ANN) as http:
        yield http


@pytest.fixture
def bob(url):
    with browsing(url, BOB) as http:
        yield http


@pytest.fixture
def model(running):
    """The scripted model, with nothing asked yet."""
    running.provider.requests.clear()
    return running.provider


@pytest.fixture
def session(ann):
    """A session of ann with two items."""
    path = f"/sessions/{uuid4()}"
    assert ann.post(f"{path}/context/load", json={"sources": ITEMS}).status_code == 200
    return path


def ended(http, path, body):
    """How a flow ended; its answer named the task's address, and what it tells holds no tenant's prefix."""
    answer = http.post(path, json=body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/api/tasks/{answer.json()['id']}"
    state = eventually(
        lambda: (told := http.get(f"/tasks/{answer.json()['id']}").json())["status"] != "running" and told,
        WAIT_S,
    )
    assert "ann:" not in json.dumps(state)
    return state


def succeeded(http, path, body):
    state = ended(http, path, body)
    assert state["status"] == "success", state
    return state["result"]


def ids(http, session):
    return [item["id"] for item in http.post(f"{session}/context/load", json={}).json()["context"]["items"]]


def test_flows_on_a_sessions_context(ann, session):
    """rag, skill, tool and mcp work on the session's stored state; what the application has chosen wins."""
    rag = succeeded(ann, f"{session}/flows/rag", {"query": "green?", "limit": 2})
    assert rag["output"]["selectedItemIds"] == ["b"]
    succeeded(ann, f"{session}/flows/skill", {"sources": [{"id": "s", "content": "skill"}]})
    tool = succeeded(ann, f"{session}/flows/tool", {"call": CALL})
    assert tool["observation"]["message"]["content"] == "HI"
    assert ids(ann, session) == ["a", "b", "s", "observation:c1"]
    mcp = succeeded(ann, f"{session}/flows/mcp", {"request": {"operation": "discover"}})
    assert mcp["output"]["capabilities"]


def test_react_asks_the_model_of_the_application(ann, session, model):
    """Samples and actions in turn; the model is the application's, and the stream tells of each step."""
    model.then(wants(("k", "upper", {"text": "hi"})), says("HI"))
    body = {"messages": MESSAGES, "actions": [ACTION], "limits": {"maxSteps": 3}}
    answer = ann.post(f"{session}/flows/react", json=body)
    with ann.stream("GET", f"/tasks/{answer.json()['id']}/events") as response:
        events = list(server_sent(response))
    state = json.loads(events[-1]["data"])
    assert (events[-1]["event"], state["status"]) == ("end", "success")
    assert state["result"]["result"]["content"] == "HI"
    assert {json.loads(event["data"])["status"] for event in events if event["event"] == "step"}


def test_summarize_replaces_items(ann, session, model):
    """The summary stands for what it replaced."""
    model.then(says(json.dumps({"summary": "colors", "sources": ["a", "b"]})))
    done = succeeded(ann, f"{session}/flows/summarize", {"maxTokens": 40})
    assert done["removedIds"] == ["a", "b"]
    assert ids(ann, session) == [done["summaryId"]]


def test_a_flow_of_another_tenant_does_not_exist(ann, bob, session):
    """The same session's name is another session for bob, and ann's task is 404 for him."""
    task = ann.post(f"{session}/flows/tool", json={"call": CALL}).json()["id"]
    assert [bob.get(f"/tasks/{task}").status_code, bob.delete(f"/tasks/{task}").status_code] == [404, 404]
    state = ended(bob, f"{session}/flows/tool", {"call": CALL})
    assert (state["status"], state["error"]["code"]) == ("failed", "CONTEXT_NOT_FOUND")


REFUSED = [
    ("tool", {}, "/call"),
    ("tool", {"call": {"id": "c"}}, "/call/name"),
    ("tool", {"call": CALL, "context": {"items": []}}, "/context"),
    ("tool", {"call": CALL, "scope": {"sessionId": "bob:s"}}, "/scope"),
    ("react", {"messages": []}, "/messages"),
    ("react", {"messages": MESSAGES, "model": {"model": "dear"}}, "/model"),
    ("react", {"messages": MESSAGES, "limits": {"maxSteps": 0}}, "/limits/maxSteps"),
    ("rag", {"maxTokens": "many"}, "/maxTokens"),
    ("skill", {"sources": 1}, "/sources"),
    ("mcp", {"request": {"operation": "invoke", "server": "files"}}, "/request/call"),
    ("summarize", {"maxTokens": 0}, "/maxTokens"),
]


@pytest.mark.parametrize(("flow", "body", "path"), REFUSED)
def test_a_wrong_body_is_422_with_its_path(ann, session, flow, body, path):
    """What the flow does not take, the caller does not choose or the node refuses is named by its path."""
    answer = ann.post(f"{session}/flows/{flow}", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["where"]) == (422, "INVALID_INPUT", "body"), answer.text
    assert error["path"] == path


def test_an_action_that_react_cannot_do_is_422(ann, session):
    """Refused before anything is sent."""
    action = {**ACTION, "targetNode": "MEMORY.WRITE"}
    answer = ann.post(f"{session}/flows/react", json={"messages": MESSAGES, "actions": [action]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "UNSUPPORTED_ACTION")


def test_no_json_an_unknown_query_and_a_large_body_are_refused(ann, session):
    """422 for what is no JSON and for a wrong deadline, 413 for what is over the limit."""
    path = f"{session}/flows/skill"
    assert ann.post(path, content=b"{").json()["error"]["where"] == "body"
    late = ann.post(f"{path}?timeoutMs=0", json={"sources": []})
    assert (late.status_code, late.json()["error"]["where"]) == (422, "query")
    large = ann.post(path, json={"sources": [{"id": "x", "content": "x" * 70_000}]})
    assert (large.status_code, large.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")


def test_a_flow_has_the_deadline_of_the_request(ann, session, model):
    """With `timeoutMs` a flow that takes longer ends: as failed, or with that reason by its own step."""
    model.then(says("late", pause_s=30.0))
    state = ended(ann, f"{session}/flows/react?timeoutMs=1000", {"messages": MESSAGES})
    reasons = {"failed": ("error", "code"), "success": ("result", "stopReason")}
    part, reason = reasons[state["status"]]
    assert state[part][reason] in ("PIPELINE_DEADLINE_EXCEEDED", "timeout")


def test_a_flow_without_its_model_says_so(bob, session):
    """The application names no model for bob: 500, and no task."""
    answer = bob.post(f"{session}/flows/summarize", json={"maxTokens": 10})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "NO_MODEL")


def test_only_named_flows_have_routes(running):
    """An application that names one flow has one route."""
    with serving(application(running.settings, flows=["rag"])) as url, browsing(url, ANN) as http:
        assert http.post("/sessions/s/flows/tool", json={"call": CALL}).status_code == 404
        assert http.post("/sessions/s/flows/rag", json={}).status_code == 202
