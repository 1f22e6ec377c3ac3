"""The INTERACTION tasks through a real worker, and what its death leaves of their effects."""

import sys
from collections.abc import Iterator

import pytest
import redis
from support.mcp_server import SCRIPT
from support.polling import eventually
from support.tools_extension import NAME
from support.workers import BROKER_DB, RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import InteractionError, NodeInputError

ACT = "INTERACTION.ACT.TOOL"
ENV = {
    "DITTO_EXTENSIONS": NAME,
    "DITTO_SHARED_SANDBOX_ALLOW_TOOLS": "count,cat,grep",
    "DITTO_SHARED_SANDBOX_ALLOW_MCP": "files",
    "DITTO_SHARED_SANDBOX_ALLOW_READ": "true",
}
YAML = """
workers:
  interaction:
    workspace: {workspace}
    commands: {{enabled: true}}
    mcp: {{servers: {{files: {{command: ["{python}", "{script}", "good"]}}}}}}
"""


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """A server that is not emptied between tests, for one worker serves them all."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("worker")
    (folder / "note.txt").write_text("in the workspace\n")
    config = folder / "ditto.yaml"
    config.write_text(YAML.format(workspace=folder, python=sys.executable, script=SCRIPT))
    return {**ENV, "DITTO_CONFIG": str(config)}


@pytest.fixture(scope="module")
def worker(own_server: EmbeddedServer, env: dict[str, str]) -> Iterator[WorkerProcess]:
    with WorkerProcess(own_server, queues=["ditto.interaction"], env=env) as running:
        yield running


@pytest.fixture(scope="module")
def app(own_server: EmbeddedServer, worker: WorkerProcess) -> Iterator[DittoCelery]:
    opened = client_app(own_server)
    yield opened
    opened.close()


def send(app: DittoCelery, node: str, task_id: str | None = None, **wire: object) -> object:
    return app.send_task(node, kwargs=wire, task_id=task_id)


def ask(app: DittoCelery, node: str, task_id: str | None = None, **wire: object) -> dict[str, object]:
    return send(app, node, task_id, **wire).get(timeout=RESULT_TIMEOUT_S)  # type: ignore[attr-defined]  # AsyncResult


def tool(name: str, **arguments: object) -> dict[str, object]:
    return {"call": {"id": "c1", "name": name, "arguments": arguments}}


def test_effect_happens_once(app: DittoCelery) -> None:
    """A tool's task that is delivered again returns the recorded result."""
    first = ask(app, ACT, "a1", **tool("count", key="a1"))
    assert first == {
        "callId": "c1",
        "source": "count",
        "status": "success",
        "structuredContent": {"times": 1},
    }
    assert ask(app, ACT, "a1", **tool("count", key="a1")) == first
    assert ask(app, ACT, "a2", **tool("count", key="a1"))["structuredContent"] == {"times": 2}


def test_second_delivery_waits(app: DittoCelery) -> None:
    """A second delivery while the first runs waits for it, and returns the same."""
    wire = tool("count", key="w1", take_s=1.5)
    both = [send(app, ACT, **wire, ditto={"operationId": "w1"}) for _ in range(2)]
    results = [one.get(timeout=RESULT_TIMEOUT_S) for one in both]  # type: ignore[attr-defined]  # AsyncResult
    assert results[0] == results[1]
    assert results[0]["structuredContent"] == {"times": 1}


def test_other_arguments_are_refused(app: DittoCelery) -> None:
    """The same operation with other arguments raises CONFLICT."""
    ask(app, ACT, "o1", **tool("count", key="o1"))
    with pytest.raises(InteractionError, match="CONFLICT"):
        ask(app, ACT, **tool("count", key="o2"), ditto={"operationId": "o1"})


def test_tenants_share_no_effect(app: DittoCelery) -> None:
    """Two tenants with one operation id each get the result of their own call."""
    both = [
        ask(app, ACT, **tool("count", key=who), ditto={"operationId": "same", "tenant": who})
        for who in ("acme", "globex", "acme")
    ]
    assert [result["structuredContent"] for result in both] == [{"times": 1}] * 3
    with pytest.raises(InteractionError, match="CONFLICT"):
        ask(app, ACT, **tool("count", key="other"), ditto={"operationId": "same", "tenant": "acme"})


def test_refusals_are_typed(app: DittoCelery) -> None:
    """Bad input and a denied permission are raised at the client as what they are."""
    with pytest.raises(NodeInputError, match="INVALID_INPUT"):
        ask(app, ACT, call={"id": "c"})
    with pytest.raises(InteractionError, match="PERMISSION_DENIED"):
        ask(app, ACT, **tool("sort", paths=["note.txt"]))


def test_tool_observe_output(app: DittoCelery, own_server: EmbeddedServer) -> None:
    """A file is read, observed and put out, each by its task."""
    result = ask(app, ACT, **tool("cat", paths=["note.txt"]))
    observed = ask(app, "INTERACTION.OBSERVE", result=result)
    assert observed["message"] == {"role": "tool", "name": "cat", "content": "in the workspace\n"}
    receipt = ask(app, "INTERACTION.OUTPUT", deliveryId="d1", message=observed["message"])
    assert receipt == {"deliveryId": "d1", "status": "accepted"}
    client = redis.Redis.from_url(own_server.redis_url(BROKER_DB))
    assert client.xlen("ditto:default:output") == 1
    client.close()


def test_mcp(app: DittoCelery) -> None:
    """A configured MCP server is discovered and called by tasks."""
    found = ask(app, "INTERACTION.ACT.MCP", operation="discover")
    assert [each["name"] for each in found["capabilities"]] == ["t2"]
    call = tool("t0", k=1)["call"]
    done = ask(app, "INTERACTION.ACT.MCP", operation="invoke", server="files", call=call)
    assert done["result"]["structuredContent"] == {"got": {"k": 1}}


def test_content_stays_out_of_the_log(app: DittoCelery, worker: WorkerProcess) -> None:
    """Arguments, results and outputs of actions are not in the worker's log."""
    ask(app, ACT, **tool("count", key="canary-key"))
    ask(app, "INTERACTION.OUTPUT", deliveryId="d2", message={"role": "assistant", "content": "canary-text"})
    with pytest.raises(InteractionError):
        ask(app, ACT, **tool("denied", text="canary-argument"))
    assert "canary" not in worker.logs()


def test_timeout_leaves_the_worker_alive(app: DittoCelery) -> None:
    """A tool that hangs is a timeout at the task's timeoutMs, and the next task runs."""
    late = ask(app, ACT, **tool("count", key="t1", hang="before"), ditto={"timeoutMs": 200})
    assert late["status"] == "timeout"
    assert ask(app, ACT, **tool("count", key="t2"))["status"] == "success"


@pytest.mark.timeout(300)  # six cold starts of a worker, on a machine that may be busy
def test_killed_workers(
    server: EmbeddedServer, env: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 5 workers killed within an effect none makes it happen twice; the next delivery learns unknown."""
    app = client_app(server)
    client = redis.Redis.from_url(server.redis_url(BROKER_DB))
    steps = [(f"k{n}", "before" if n % 2 else "after") for n in range(5)]
    for step, point in steps:
        with WorkerProcess(server, queues=["ditto.interaction"], env=env, name=step) as mortal:
            send(app, ACT, **tool("count", key=step, hang=point), ditto={"operationId": step})
            eventually(lambda step=step: client.get(f"test:{step}:hangs"), 30)
            mortal.kill()
    with WorkerProcess(server, queues=["ditto.interaction"], env=env, name="last"):
        again = [send(app, ACT, **tool("count", key=s, hang=p), ditto={"operationId": s}) for s, p in steps]
        results = [one.get(timeout=60) for one in again]  # type: ignore[attr-defined]  # AsyncResult
    counts = [int(client.get(f"test:{step}") or 0) for step, _ in steps]
    client.close()
    app.close()
    assert [(result["status"], result["error"]["code"]) for result in results] == [
        ("unknown", "OUTCOME_UNKNOWN")
    ] * 5
    assert counts == [1, 0, 1, 0, 1]
    with capsys.disabled():
        sys.stdout.write("\neffect ledger: 5 workers killed, no effect happened twice\n")
