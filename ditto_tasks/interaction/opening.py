"""Opens the INTERACTION nodes of a worker from its settings and the application's services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ditto_tasks.errors import SettingsError
from ditto_tasks.interaction.base import McpClient, OutputSink, Tool
from ditto_tasks.interaction.commands import command_tools
from ditto_tasks.interaction.ledger import EffectLedger
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.providers.brave import BraveSearch
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.sinks import LogSink, RedisStreamSink, WebhookSink
from ditto_tasks.interaction.stores.redis import RedisEffectStore
from ditto_tasks.interaction.web_search import WebSearchProvider, web_search_tool
from ditto_tasks.lua_running import ScriptClient
from ditto_tasks.settings import Settings
from ditto_tasks.state.redis import open_state_client


class _Client(ScriptClient, Protocol):
    def ping(self) -> object: ...
    def close(self) -> None: ...


class _Closable(Protocol):
    def close(self) -> None: ...


class WorkerInteractionNodes(InteractionNodes):
    """The nodes of a worker, with the ledger that its tasks keep."""

    client: _Client | None = None
    ledger: EffectLedger | None = None
    own_mcp: _Closable | None = None

    def ping(self) -> None:
        """Ask the broker's database; raises its client's errors."""
        if self.client is not None:
            self.client.ping()

    def close(self) -> None:
        """Close what was opened here."""
        for opened in (self.own_mcp, self.client):
            if opened is not None:
                opened.close()


def open_interaction(settings: Settings, services: Mapping[str, object]) -> WorkerInteractionNodes:
    """Open the nodes. Of ``services``: tools, web_search, mcp, sink."""
    client = _open_client(settings)
    own_mcp = None if "mcp" in services else _open_mcp(settings)
    nodes = WorkerInteractionNodes(
        open_registry(settings, services),
        permissions=permissions_of(settings),
        mcp=cast("McpClient | None", services.get("mcp", own_mcp)),
        sink=cast("OutputSink | None", services.get("sink")) or _sink(settings, client),
        timeout_ms=settings.interaction.tool.timeout_ms,
        max_output_bytes=settings.interaction.tool.max_output_bytes,
        concurrency=settings.interaction.concurrency,
    )
    nodes.client, nodes.own_mcp = client, cast("_Closable | None", own_mcp)
    deployment = settings.connections.deployment
    nodes.ledger = EffectLedger(RedisEffectStore(client, deployment=deployment)) if client else None
    return nodes


def permissions_of(settings: Settings) -> Permissions:
    """Return what the sandbox allows."""
    sandbox = settings.shared.sandbox
    return Permissions(
        tools=frozenset(sandbox.tools),
        mcp=frozenset(sandbox.mcp),
        network=frozenset(sandbox.network),
        read=sandbox.read,
        write=sandbox.write,
        execute=sandbox.execute,
    )


def open_registry(settings: Settings, services: Mapping[str, object]) -> ToolRegistry:
    """Return the built-in tools that are configured, and the application's."""
    registry = ToolRegistry()
    for tool in (*_built_in(settings, services), *cast("Iterable[Tool]", services.get("tools", ()))):
        registry.register(tool)
    return registry


def _built_in(settings: Settings, services: Mapping[str, object]) -> list[Tool]:
    tools: list[Tool] = []
    if settings.interaction.commands.enabled:
        tools += command_tools(_workspace(settings))
    provider = cast("WebSearchProvider | None", services.get("web_search"))
    key = settings.connections.brave_search_api_key
    if provider is None and key is not None:
        provider = BraveSearch(key.get_secret_value())
    return tools if provider is None else [*tools, web_search_tool(provider)]


def _workspace(settings: Settings) -> Path:
    path = "workers.interaction.workspace"
    if settings.interaction.workspace is None:
        raise SettingsError("INVALID_SETTINGS", f"{path}: the commands need a folder", {"path": path})
    workspace = Path(settings.interaction.workspace)
    if not workspace.is_dir():
        raise SettingsError("INVALID_SETTINGS", f"{path}: is not a folder", {"path": path})
    return workspace


def _open_mcp(settings: Settings) -> McpClient | None:
    servers = settings.interaction.mcp.servers
    if not servers:
        return None
    try:
        sdk = import_module("ditto_tasks.interaction.providers.mcp")
    except ImportError as error:
        path = "workers.interaction.mcp.servers"
        raise SettingsError("MISSING_EXTRA", f"{path}: needs ditto-tasks[mcp]", {"path": path}) from error
    addresses = {name: sdk.McpAddress(command=each.command, url=each.url) for name, each in servers.items()}
    return cast("McpClient", sdk.McpSdkClient(addresses))


def _open_client(settings: Settings) -> _Client | None:
    url = settings.connections.broker_url
    return None if url is None else cast("_Client", open_state_client(url.get_secret_value()))


def _sink(settings: Settings, client: ScriptClient | None) -> OutputSink:
    webhook = settings.connections.webhook_url
    if webhook is not None:
        return WebhookSink(webhook.get_secret_value())
    if client is None:
        return LogSink()
    return RedisStreamSink(client, deployment=settings.connections.deployment)
