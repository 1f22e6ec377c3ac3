"""ACT.MCP through the official SDK: good servers, and servers that die, hang, flood and lie."""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from support.mcp_server import SCRIPT
from support.polling import eventually

from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.base import InteractionCall
from ditto_tasks.interaction.models import Discovery, Invocation
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.providers.mcp import McpAddress, McpSdkClient
from ditto_tasks.interaction.values import ExternalResult
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import to_wire

TIMEOUT_MS = 30_000  # starting a Python server on a busy machine


@pytest.fixture
def client() -> Iterator[McpSdkClient]:
    behaviours = ["good", "two-pages", "ten-thousand", "same-cursor", "endless-pages", "thousand-in-pages"]
    behaviours += [
        "unreadable",
        "is-error",
        "dies",
        "hangs",
        "floods",
        "nothing",
        "lies",
        "stillborn",
        "noisy",
    ]
    servers = {name: McpAddress(command=(sys.executable, SCRIPT, name)) for name in behaviours}
    servers["missing"] = McpAddress(command=("/no/such/command",))
    servers["refusing"] = McpAddress(url="http://127.0.0.1:9/mcp")
    opened = McpSdkClient(servers)
    yield opened
    opened.close()


def nodes(client: McpSdkClient, *servers: str) -> InteractionNodes:
    return InteractionNodes(
        mcp=client, permissions=Permissions(mcp=frozenset(servers)), timeout_ms=TIMEOUT_MS
    )


def discover(client: McpSdkClient, server: str) -> Discovery:
    found = nodes(client, server).act_mcp({"operation": "discover", "server": server})
    assert isinstance(found, Discovery)
    return found


def invoke(client: McpSdkClient, server: str, call: InteractionCall | None = None) -> ExternalResult:
    tool = {"id": "c1", "name": "t0", "arguments": {"k": "é"}}
    given = {"operation": "invoke", "server": server, "call": tool}
    done = nodes(client, server).act_mcp(given, call=call or InteractionCall())
    assert isinstance(done, Invocation)
    assert "canary" not in str(to_wire(done))
    return done.result


def children() -> list[str]:
    """The process ids of this process's children."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return [pid for task in tasks for pid in (task / "children").read_text().split()]


def refusal(client: McpSdkClient, server: str) -> str:
    with pytest.raises(InteractionError) as caught:
        discover(client, server)
    assert "canary" not in str(caught.value)
    return caught.value.code


def test_discovery_walks_the_pages(client: McpSdkClient) -> None:
    """Discovery lists what all pages of all kinds offer, and calls no tool."""
    found = to_wire(discover(client, "two-pages"))
    assert isinstance(found, dict)
    offered = [(each["server"], each["kind"], each["name"]) for each in found["capabilities"]]
    assert offered == [
        ("two-pages", "tool", "t0"),
        ("two-pages", "tool", "t1"),
        ("two-pages", "tool", "t2"),
        ("two-pages", "prompt", "p"),
    ]
    assert found["capabilities"][0]["inputSchema"] == {"type": "object"}


def test_discovery_of_all_permitted_servers(client: McpSdkClient) -> None:
    """Without a server, every permitted one is asked."""
    found = nodes(client, "good", "noisy").act_mcp({"operation": "discover"})
    assert isinstance(found, Discovery)
    assert [each.server for each in found.capabilities] == ["good", "noisy"]


def test_a_thousand_capabilities_are_allowed(client: McpSdkClient) -> None:
    """Exactly 1,000 capabilities pass."""
    assert len(discover(client, "thousand-in-pages").capabilities) == 1_000


@pytest.mark.parametrize(
    ("peer", "code"),
    [
        ("ten-thousand", "MCP_LIMIT_EXCEEDED"),
        ("endless-pages", "MCP_LIMIT_EXCEEDED"),
        ("same-cursor", "MCP_PROTOCOL_ERROR"),
        ("unreadable", "MCP_PROTOCOL_ERROR"),
        ("stillborn", "MCP_CONNECTION_FAILED"),
        ("missing", "MCP_CONNECTION_FAILED"),
        ("refusing", "MCP_CONNECTION_FAILED"),
    ],
)
def test_bad_discoveries(client: McpSdkClient, peer: str, code: str) -> None:
    """A server that offers too much, repeats a cursor, never ends or isn't there raises a typed error."""
    assert refusal(client, peer) == code


def test_invocation(client: McpSdkClient) -> None:
    """A call's content and structured content come back; the source names server and tool."""
    result = invoke(client, "good")
    assert (result.call_id, result.source, result.status) == ("c1", "good/t0", "success")
    assert result.structured_content == {"got": {"k": "é"}}
    assert isinstance(result.content, tuple)


@pytest.mark.parametrize(
    ("peer", "status", "code"),
    [
        ("is-error", "failed", "MCP_TOOL_ERROR"),
        ("dies", "unknown", "MCP_CONNECTION_LOST"),
        ("floods", "failed", "TOOL_OUTPUT_TOO_LARGE"),
        ("nothing", "failed", "INVALID_TOOL_OUTPUT"),
        ("lies", "unknown", "MCP_CONNECTION_LOST"),
        ("stillborn", "failed", "MCP_CONNECTION_FAILED"),
        ("missing", "failed", "MCP_CONNECTION_FAILED"),
    ],
)
def test_bad_invocations(client: McpSdkClient, peer: str, status: str, code: str) -> None:
    """Whatever a server does to a call, the result is typed and shows none of the server's text."""
    result = invoke(client, peer)
    assert (result.status, result.error and result.error.code) == (status, code)


def test_hanging_server(client: McpSdkClient) -> None:
    """A server that hangs is cut at the timeout, and its process ends before the client is closed."""
    before = set(children())
    result = invoke(client, "hangs", InteractionCall(timeout_ms=4_000))
    assert (result.status, result.error and result.error.code) == ("timeout", "TIMEOUT")
    (hanging,) = set(children()) - before
    client.close()
    assert not Path(f"/proc/{hanging}").exists()


def test_only_permitted_servers(client: McpSdkClient) -> None:
    """A server that is not permitted is neither asked nor called."""
    for given in (
        {"operation": "discover", "server": "good"},
        {"operation": "invoke", "server": "good", "call": {"id": "c", "name": "t", "arguments": {}}},
    ):
        with pytest.raises(InteractionError, match="PERMISSION_DENIED"):
            nodes(client, "two-pages").act_mcp(given)


def test_unconfigured_server(client: McpSdkClient) -> None:
    """A permitted server that is not configured raises."""
    assert refusal(client, "nowhere") == "MCP_SERVER_NOT_FOUND"


def test_stderr_and_noise_stay_out_of_the_log(
    client: McpSdkClient, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What a server writes beside the protocol reaches neither log nor terminal."""
    assert invoke(client, "noisy").status == "success"
    assert "canary" not in caplog.text
    assert "canary" not in "".join(capfd.readouterr())


@pytest.fixture
def http_url() -> Iterator[str]:
    """The URL of a server on streamable HTTP, made with the SDK."""
    server = MCPServer("http")

    @server.tool()
    def double(n: int) -> int:
        return 2 * n

    @server.tool()
    def flood() -> str:
        return "canary" * 9_000_000

    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    eventually(lambda: running.started)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join(10)
    sock.close()


def test_streamable_http(http_url: str) -> None:
    """A server on streamable HTTP is discovered and called as one on stdio."""
    client = McpSdkClient({"web": McpAddress(url=http_url)})
    opened = nodes(client, "web")
    found = opened.act_mcp({"operation": "discover"})
    assert isinstance(found, Discovery)
    assert [each.name for each in found.capabilities] == ["double", "flood"]
    call: JsonObject = {"id": "c", "name": "double", "arguments": {"n": 4}}
    done = opened.act_mcp({"operation": "invoke", "server": "web", "call": call})
    client.close()
    assert isinstance(done, Invocation)
    assert done.result.structured_content == {"result": 8}


def test_a_flood_over_http(http_url: str) -> None:
    """An answer past its bound is not read to its end; the result is typed, and the next call succeeds."""
    client = McpSdkClient({"web": McpAddress(url=http_url)})
    opened = nodes(client, "web")
    calls: list[JsonObject] = [
        {"id": "c", "name": "flood", "arguments": {}},
        {"id": "d", "name": "double", "arguments": {"n": 4}},
    ]
    flood, double = (opened.act_mcp({"operation": "invoke", "server": "web", "call": call}) for call in calls)
    client.close()
    assert isinstance(flood, Invocation)
    assert isinstance(double, Invocation)
    assert flood.result.status == "failed"
    assert flood.result.error is not None
    assert flood.result.error.code == "MCP_PROTOCOL_ERROR"
    assert "canary" not in str(to_wire(flood))
    assert double.result.structured_content == {"result": 8}
