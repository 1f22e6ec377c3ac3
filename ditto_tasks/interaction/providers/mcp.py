"""MCP servers through the official SDK: a process on stdio, or a URL with streamable HTTP."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult
from pydantic import BaseModel

from ditto_tasks.bounded_http import bounded_client
from ditto_tasks.errors import DittoError, InteractionError
from ditto_tasks.event_loop import LoopThread
from ditto_tasks.interaction.base import ActionCall, ToolError, ToolOutput
from ditto_tasks.interaction.mcp_answers import (
    MAX_CAPABILITIES,
    CapabilityKind,
    capability,
    limit_exceeded,
    tool_result,
)
from ditto_tasks.interaction.models import Capability
from ditto_tasks.interaction.values import ToolCall

MAX_PAGES = 100
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class McpAddress:
    """Where a server is: a command to start for each call, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None


class Listing(Protocol):
    """A method of the SDK's client that gives one page."""

    def __call__(self, *, cursor: str | None) -> Awaitable[BaseModel]: ...


class McpSdkClient:
    """Implements McpClient. Each call has its own connection, so that no server's death outlives it."""

    def __init__(self, servers: Mapping[str, McpAddress]) -> None:
        self._servers = dict(servers)
        self._loop = LoopThread("ditto-mcp")
        # the SDK logs what a server sent that it can't read; that may be content
        logging.getLogger("mcp").setLevel(logging.CRITICAL)
        logging.getLogger("client").setLevel(logging.CRITICAL)

    def discover(self, server: str, call: ActionCall) -> list[Capability]:
        """List tools, resources and prompts, as far as the server has them."""
        return self._talk(server, call, lambda client: _capabilities(server, client))

    def invoke(self, server: str, tool: ToolCall, call: ActionCall) -> ToolOutput:
        """Call one tool; once the call is out, a broken connection leaves an unknown outcome."""
        sent: list[bool] = []

        async def ask(client: Client) -> CallToolResult:
            sent.append(True)
            return await client.call_tool(tool.name, dict(tool.arguments))

        try:
            answer = self._talk(server, call, ask)
            return tool_result(answer.model_dump(by_alias=True, exclude_none=True, mode="json"))
        except InteractionError as error:
            if error.code == "MCP_CONNECTION_FAILED" and sent:
                raise ToolError("MCP_CONNECTION_LOST", error.message, status="unknown") from error
            raise

    def close(self) -> None:
        """Stop the loop."""
        self._loop.close()

    def _talk(
        self, server: str, call: ActionCall, ask: Callable[[Client], Coroutine[object, object, T]]
    ) -> T:
        address = self._servers.get(server)
        if address is None:
            raise InteractionError("MCP_SERVER_NOT_FOUND", "no such MCP server is configured")
        timeout = InteractionError("TIMEOUT", "the MCP server did not answer in time")
        return self._loop.run(
            lambda: _connected(address, ask),
            timeout_s=call.remaining_s(),
            token=call.token,
            on_timeout=timeout,
        )


async def _connected(address: McpAddress, ask: Callable[[Client], Awaitable[T]]) -> T:
    try:
        async with AsyncExitStack() as stack:
            return await ask(await stack.enter_async_context(_client(address, stack)))
    except DittoError:
        raise
    except Exception as error:
        if (own := _own_error(error)) is not None:
            raise own from error
        raise InteractionError("MCP_CONNECTION_FAILED", "the MCP server can't be talked to") from error


def _own_error(error: BaseException) -> DittoError | None:
    """Return our error out of a group that the SDK's tasks made of it."""
    if isinstance(error, DittoError):
        return error
    nested = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((own for each in nested if (own := _own_error(each)) is not None), None)


def _client(address: McpAddress, stack: AsyncExitStack) -> Client:
    if address.url is not None:
        http = bounded_client(_unreadable)
        stack.push_async_callback(http.aclose)
        return Client(streamable_http_client(address.url, http_client=http), cache=None)
    # what a server says on stderr is its own affair, and may be content
    silence = stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115 - the stack closes it
    command, *args = address.command
    return Client(stdio_client(StdioServerParameters(command=command, args=args), silence), cache=None)


def _unreadable(what: str) -> InteractionError:
    return InteractionError("MCP_PROTOCOL_ERROR", f"the MCP server's answer is {what}")


async def _capabilities(server: str, client: Client) -> list[Capability]:
    offered = client.server_capabilities
    listings: list[tuple[CapabilityKind, object, Listing]] = [
        ("tool", offered.tools, client.list_tools),
        ("resource", offered.resources, client.list_resources),
        ("prompt", offered.prompts, client.list_prompts),
    ]
    found: list[Capability] = []
    for kind, is_offered, fetch in listings:
        if is_offered is not None:
            found += [capability(server, kind, each) async for each in _listed(kind, fetch, len(found))]
    return found


async def _listed(kind: str, fetch: Listing, already: int) -> AsyncIterator[object]:
    """Walk the pages; a server that repeats a cursor or never ends is cut off."""
    cursor, seen, count = None, set(), already
    for _ in range(MAX_PAGES):
        page = (await fetch(cursor=cursor)).model_dump(by_alias=True, exclude_none=True, mode="json")
        items = page.get(f"{kind}s", [])
        count += len(items)
        if count > MAX_CAPABILITIES:
            raise limit_exceeded(f"more than {MAX_CAPABILITIES} capabilities")
        for item in items:
            yield item
        cursor = page.get("nextCursor")
        if cursor is None:
            return
        if cursor in seen:
            raise InteractionError("MCP_PROTOCOL_ERROR", "the MCP server repeated a cursor")
        seen.add(cursor)
    raise limit_exceeded(f"more than {MAX_PAGES} pages")
