"""Runs over HTTP: only registered graphs start, owners alone see and change them, views hold no content."""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import httpx
import pytest
import redis
from support.flows import FlowDeployment
from support.graphs import constant, graph_deployment, load
from support.polling import eventually
from support.web import ANN, BOB, application, browsing, serving

from ditto_tasks.pipelines.graphs import Graph, GraphNode
from ditto_tasks.pipelines.loops import Loop

CANARY = "canary-7d40"
WAIT_S = 30.0
STEPS = Graph("two steps", [constant("first", CANARY), load("second", "first")])
ONCE = Graph("once", [constant("first"), load("shaky", "first", binding="test.once")])
WAITS = Graph("waits", [load("slow", binding="test.wait"), load("never", "slow")])
STORES = Graph(
    "stores",
    [GraphNode("keep", "CONTEXT.LOAD", binding="run input", scope="run", options={"reply": "receipt"})],
)
ROUNDS = Loop(
    "rounds",
    {"only": Graph("only", [constant("a", CANARY)])},
    bind="test.first item",
    update="test.count",
    done="test.enough",
)
GRAPHS = {"rounds": ROUNDS, "steps": STEPS, "once": ONCE, "waits": WAITS, "stores": STORES}


@pytest.fixture(scope="module")
def running() -> Iterator[FlowDeployment]:
    with graph_deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def url(running: FlowDeployment) -> Iterator[str]:
    with serving(application(running.settings, graphs=GRAPHS)) as address:
        yield address


@pytest.fixture
def ann(url: str) -> Iterator[httpx.Client]:
    with browsing(url, ANN) as http:
        yield http


@pytest.fixture
def bob(url: str) -> Iterator[httpx.Client]:
    with browsing(url, BOB) as http:
        yield http


@pytest.fixture
def broker(running: FlowDeployment) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(running.server.redis_url(0)) as opened:
        yield opened


def start(http: httpx.Client, graph: str, given: object = None, **headers: str) -> str:
    """Start a run on a session of its own; its id."""
    answer = http.post(f"/sessions/s1/runs/{graph}", json={"input": given}, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/api/runs/{answer.json()['id']}"
    return str(answer.json()["id"])


def ended(http: httpx.Client, run: str) -> dict[str, object]:
    """The run's view once it has ended."""
    return eventually(
        lambda: (view := http.get(f"/runs/{run}").json())["state"] != "running" and view, WAIT_S
    )


def test_a_registered_graph_is_started_and_read(ann: httpx.Client) -> None:
    """The view tells of every node, its outputs are apart from it, and the task's routes know the run."""
    run = start(ann, "steps", {"text": CANARY})
    view = ended(ann, run)
    assert (view["state"], view["kind"], view["name"]) == ("done", "graph", "two steps")
    assert [(node["id"], node["state"]) for node in view["nodes"]] == [("first", "done"), ("second", "done")]
    assert CANARY not in str(view)
    output = ann.get(f"/runs/{run}/outputs/second")
    assert CANARY in output.text
    assert output.headers["Cache-Control"] == "no-store"
    assert ann.get(f"/runs/{run}/outputs/third").status_code == 404
    assert ann.get(f"/tasks/{run}").json()["status"] == "success"


def test_a_loop_is_started_and_its_state_is_read(ann: httpx.Client, bob: httpx.Client) -> None:
    """Its view shows the last iteration, and its state is its owner's alone."""
    run = start(ann, "rounds", {"wanted": 3})
    view = ended(ann, run)
    assert (view["state"], view["kind"], view["name"], view["iteration"]) == ("done", "loop", "rounds", 3)
    assert [node["state"] for node in view["nodes"]] == ["done"]
    assert ann.get(f"/runs/{run}/state").json()["rounds"] == 3
    assert CANARY in ann.get(f"/runs/{run}-i2/outputs/a").text
    assert (
        bob.get(f"/runs/{run}/state").status_code == bob.get(f"/runs/{run}-i2/outputs/a").status_code == 404
    )
    assert "loop rounds · done · iteration 3" in ann.get(f"/runs/{run}/graph.svg").text
    assert ann.get(f"/runs/{start(ann, 'steps')}/state").status_code == 404


def test_a_picture_is_svg_that_can_do_nothing(ann: httpx.Client) -> None:
    """It is well-formed, holds no content, and is served so that it runs and loads nothing."""
    run = start(ann, "steps", CANARY)
    ended(ann, run)
    picture = ann.get(f"/runs/{run}/graph.svg")
    assert picture.headers["Content-Type"].startswith("image/svg+xml")
    assert "default-src 'none'" in picture.headers["Content-Security-Policy"]
    assert picture.headers["X-Content-Type-Options"] == "nosniff"
    ET.fromstring(picture.text)  # noqa: S314 -- our own
    assert "✓ done" in picture.text
    assert CANARY not in picture.text


def test_what_was_not_registered_cannot_be_started(ann: httpx.Client, running: FlowDeployment) -> None:
    """An unknown name is 404, and without registered graphs there is no route at all."""
    assert ann.post("/sessions/s1/runs/mine", json={}).status_code == 404
    with serving(application(running.settings)) as address, browsing(address, ANN) as http:
        assert http.post("/sessions/s1/runs/steps", json={}).status_code == 404
        assert http.get("/runs").status_code == 200


def test_a_run_belongs_to_its_tenant(ann: httpx.Client, bob: httpx.Client) -> None:
    """To others it is what never was: in views, pictures, outputs, lists, and for cancel and resume."""
    run = start(ann, "steps")
    ended(ann, run)
    never = f"/runs/{uuid4()}"
    for method, path in (
        ("GET", ""),
        ("GET", "/graph.svg"),
        ("GET", "/outputs/first"),
        ("DELETE", ""),
        ("POST", "/resume"),
    ):
        theirs, nobodys = (bob.request(method, f"{base}{path}") for base in (f"/runs/{run}", never))
        assert theirs.status_code == 404
        assert theirs.json() == nobodys.json()
    assert run not in [each["id"] for each in bob.get("/runs").json()["runs"]]
    assert run in [each["id"] for each in ann.get("/runs").json()["runs"]]


def test_a_run_works_on_the_tenants_own_session(ann: httpx.Client, bob: httpx.Client) -> None:
    """The scope is the caller's session; its name comes back without the tenant's prefix."""
    run = start(ann, "stores", {"sources": [{"id": "a", "content": "of ann"}]})
    ended(ann, run)
    assert ann.get(f"/runs/{run}/outputs/keep").json()["scope"] == {"sessionId": "s1"}
    loaded = ann.post("/sessions/s1/context/load", json={})
    assert loaded.status_code == 200
    assert bob.post("/sessions/s1/context/load", json={}).status_code == 404


def test_the_same_key_is_the_same_run(ann: httpx.Client, bob: httpx.Client) -> None:
    """A repeated request starts nothing new, another input is refused, another tenant's is another run."""
    headers = {"Idempotency-Key": uuid4().hex}
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: start(ann, "steps", None, **headers), range(4)))
    assert len(set(ids)) == 1
    assert start(bob, "steps", None, **headers) != ids[0]
    assert [each["id"] for each in ann.get("/runs").json()["runs"]].count(ids[0]) == 1
    other = ann.post("/sessions/s1/runs/steps", json={"input": "another"}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "RUN_EXISTS")


def test_a_run_is_cancelled(ann: httpx.Client, broker: redis.Redis) -> None:
    """Nodes that had not begun are skipped; a second time changes nothing; its task is cancelled, too."""
    key = uuid4().hex
    run = start(ann, "waits", {"key": key})
    eventually(lambda: ann.get(f"/runs/{run}").json()["nodes"][0]["state"] == "running", WAIT_S)
    answer = ann.delete(f"/runs/{run}")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelled")
    assert ann.delete(f"/runs/{run}").json()["state"] == "cancelled"
    broker.set(f"test:go:{key}", "1", ex=60)
    view = ann.get(f"/runs/{run}").json()
    assert (view["error"]["code"], view["nodes"][1]["state"]) == ("CANCELLED", "skipped")
    assert ann.get(f"/tasks/{run}").json()["status"] == "cancelled"


def test_cancelling_the_task_of_a_run_cancels_the_run(ann: httpx.Client, broker: redis.Redis) -> None:
    """DELETE of the task with the run's id ends the whole run."""
    key = uuid4().hex
    run = start(ann, "waits", {"key": key})
    assert ann.delete(f"/tasks/{run}").status_code == 202
    broker.set(f"test:go:{key}", "1", ex=60)
    assert ended(ann, run)["state"] == "cancelled"


def test_a_failed_run_is_resumed(ann: httpx.Client) -> None:
    """It ends with its error and node; resumed, it is done, with what was settled kept."""
    run = start(ann, "once", {"key": uuid4().hex})
    failed = ended(ann, run)
    assert (failed["state"], failed["error"]["node"]) == ("failed", "shaky")
    answer = ann.post(f"/runs/{run}/resume", json={"timeoutMs": 60_000})
    assert answer.status_code == 202, answer.text
    view = ended(ann, run)
    assert (view["state"], view["nodes"][0]) == ("done", failed["nodes"][0])
    again = ann.post(f"/runs/{run}/resume")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "RUN_NOT_STOPPED")


def test_lists_are_paged_and_filtered(ann: httpx.Client) -> None:
    """Pages follow one another by their cursor, states choose, and wrong values name their field."""
    started = [start(ann, "steps") for _ in range(3)]
    for run in started:
        ended(ann, run)
    seen, cursor = [], None
    while True:
        page = ann.get("/runs", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [each["id"] for each in page["runs"]]
        cursor = page.get("cursor")
        if cursor is None:
            break
    assert seen[:3] == started[::-1]
    assert len(seen) == len(set(seen))
    done = ann.get("/runs", params={"state": ["done", "failed"]}).json()["runs"]
    assert {each["state"] for each in done} <= {"done", "failed"}
    for wrong in ({"state": "lost"}, {"limit": 0}, {"limit": 101}, {"cursor": "junk"}, {"cursor": "1:x"}):
        answer = ann.get("/runs", params=wrong)
        assert answer.status_code == (200 if wrong == {"cursor": "1:x"} else 422), answer.text


@pytest.mark.parametrize(
    ("body", "status"),
    [("{", 422), ("[]", 422), ('{"input": 1, "more": 2}', 422), ('{"timeoutMs": 0}', 422), ("{}", 202)],
)
def test_bodies_are_checked(ann: httpx.Client, body: str, status: int) -> None:
    """What is no JSON, no object, or has other fields is refused before anything is started."""
    headers = {"Content-Type": "application/json"}
    assert ann.post("/sessions/s1/runs/steps", content=body, headers=headers).status_code == status


def test_nobody_is_let_in_without_a_name(url: str) -> None:
    """Every route asks the application's dependency first."""
    with browsing(url) as http:
        for method, path in (
            ("GET", "/runs"),
            ("GET", "/runs/x"),
            ("GET", "/runs/x/graph.svg"),
            ("DELETE", "/runs/x"),
            ("GET", "/runs/x/outputs/y"),
            ("POST", "/runs/x/resume"),
            ("POST", "/sessions/s/runs/steps"),
        ):
            assert http.request(method, path, json={} if method == "POST" else None).status_code == 401
