"""Tools and MCP servers that do what they should not, through a real worker: a typed result, and it lives."""

import sys
from collections.abc import Iterator

import pytest
from support.mcp_server import SCRIPT
from support.odd_tools_extension import CANARY, NAME
from support.workers import RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import InteractionError

ACT, MCP = "INTERACTION.ACT.TOOL", "INTERACTION.ACT.MCP"
SERVERS = (
    "good",
    "dies",
    "hangs",
    "floods",
    "floods-50-mb",
    "lies",
    "same-cursor",
    "endless-pages",
    "ten-thousand",
    "unreadable",
    "is-error",
    "stillborn",
    "nothing",
)
SERVER = '      {name}: {{command: ["{python}", "{script}", "{name}"]}}\n'


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="module")
def worker(own_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    config = tmp_path_factory.mktemp("odd") / "ditto.yaml"
    servers = "".join(SERVER.format(name=name, python=sys.executable, script=SCRIPT) for name in SERVERS)
    config.write_text(f"workers:\n  interaction:\n    mcp:\n     servers:\n{servers}")
    env = {
        "DITTO_CONFIG": str(config),
        "DITTO_EXTENSIONS": NAME,
        "DITTO_SHARED_SANDBOX_ALLOW_TOOLS": "odd",
        "DITTO_SHARED_SANDBOX_ALLOW_MCP": ",".join(SERVERS),
    }
    with WorkerProcess(own_server, queues=["ditto.interaction"], env=env) as running:
        yield running


@pytest.fixture(scope="module")
def app(own_server: EmbeddedServer, worker: WorkerProcess) -> Iterator[DittoCelery]:
    opened = client_app(own_server)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def _lives_and_tells_nothing(app: DittoCelery, worker: WorkerProcess) -> Iterator[None]:
    """After each test the worker does its next task, and neither its log nor a result held foreign text."""
    yield
    assert act(app, {"how": "fine"})["content"] == "fine"
    assert worker.alive
    assert "canary" not in worker.logs()


def ask(app: DittoCelery, node: str, wire: dict[str, object], **options: int) -> dict[str, object]:
    task = app.send_task(node, kwargs={**wire, "ditto": options})
    result: dict[str, object] = task.get(timeout=2 * RESULT_TIMEOUT_S)
    assert "canary" not in str(result)
    return result


def act(app: DittoCelery, arguments: object, **options: int) -> dict[str, object]:
    return ask(app, ACT, {"call": {"id": "c", "name": "odd", "arguments": arguments}}, **options)


def outcome(result: dict[str, object]) -> tuple[object, object]:
    return result["status"], result["error"]["code"]  # type: ignore[index]  # an object


@pytest.mark.parametrize(
    "arguments", [{}, {"how": 1}, {"how": "fine", "times": 0}, {"how": "fine", "times": 1.5}, {"x": CANARY}]
)
def test_bad_arguments(app: DittoCelery, arguments: object) -> None:
    """Arguments that the tool's schema refuses are a failed result, and the tool does not run."""
    assert outcome(act(app, arguments)) == ("failed", "INVALID_ARGUMENTS")


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("raise", "failed", "TOOL_FAILED"),
        ("exit", "failed", "TOOL_FAILED"),
        ("recursion", "failed", "TOOL_FAILED"),
        ("nan", "failed", "INVALID_TOOL_OUTPUT"),
        ("infinite", "failed", "INVALID_TOOL_OUTPUT"),
        ("no json", "failed", "INVALID_TOOL_OUTPUT"),
        ("number keys", "failed", "INVALID_TOOL_OUTPUT"),
        ("none", "failed", "INVALID_TOOL_OUTPUT"),
        ("nothing", "failed", "INVALID_TOOL_OUTPUT"),
        ("deep", "failed", "INVALID_TOOL_OUTPUT"),
        ("50 MB", "failed", "TOOL_OUTPUT_TOO_LARGE"),
        ("50 MB of objects", "failed", "TOOL_OUTPUT_TOO_LARGE"),
    ],
)
def test_odd_tools(app: DittoCelery, how: str, status: str, code: str) -> None:
    """Whatever a tool does or returns, its caller gets a failed result with a code and none of its text."""
    assert outcome(act(app, {"how": how})) == (status, code)


def test_a_hanging_tool(app: DittoCelery) -> None:
    """It is left at its time, and other tools run beside it."""
    assert outcome(act(app, {"how": "hang"}, timeoutMs=300)) == ("timeout", "TIMEOUT")


@pytest.mark.parametrize(
    ("peer", "code"),
    [
        ("same-cursor", "MCP_PROTOCOL_ERROR"),
        ("unreadable", "MCP_PROTOCOL_ERROR"),
        ("endless-pages", "MCP_LIMIT_EXCEEDED"),
        ("ten-thousand", "MCP_LIMIT_EXCEEDED"),
        ("stillborn", "MCP_CONNECTION_FAILED"),
    ],
)
def test_odd_discoveries(app: DittoCelery, peer: str, code: str) -> None:
    """A server that lies about cursors, offers too much or is not there raises a typed error."""
    with pytest.raises(InteractionError) as caught:
        ask(app, MCP, {"operation": "discover", "server": peer})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("peer", "status", "code"),
    [
        ("dies", "unknown", "MCP_CONNECTION_LOST"),
        ("lies", "unknown", "MCP_CONNECTION_LOST"),
        ("hangs", "timeout", "TIMEOUT"),
        ("is-error", "failed", "MCP_TOOL_ERROR"),
        ("nothing", "failed", "INVALID_TOOL_OUTPUT"),
        ("floods", "failed", "TOOL_OUTPUT_TOO_LARGE"),
        ("stillborn", "failed", "MCP_CONNECTION_FAILED"),
    ],
)
def test_odd_servers(app: DittoCelery, peer: str, status: str, code: str) -> None:
    """Whatever a server does to a call, the result says how it ended."""
    call = {"id": "c", "name": "t0", "arguments": {}}
    options = {"timeoutMs": 5_000} if peer == "hangs" else {}
    wire = {"operation": "invoke", "server": peer, "call": call}
    assert outcome(ask(app, MCP, wire, **options)["result"]) == (status, code)  # type: ignore[arg-type]  # an object


def test_a_server_that_sends_50_mb(app: DittoCelery) -> None:
    """It is cut off at the call's time, or refused for its size if the machine is faster than that."""
    call = {"id": "c", "name": "t0", "arguments": {}}
    wire: dict[str, object] = {"operation": "invoke", "server": "floods-50-mb", "call": call}
    ended = outcome(ask(app, MCP, wire, timeoutMs=4_000)["result"])  # type: ignore[arg-type]  # an object
    assert ended in (("timeout", "TIMEOUT"), ("failed", "TOOL_OUTPUT_TOO_LARGE"))


def test_a_discovery_of_all_tells_the_first_fault(app: DittoCelery) -> None:
    """A good server beside bad ones does not hide them."""
    with pytest.raises(InteractionError, match="MCP_"):
        ask(app, MCP, {"operation": "discover"})
