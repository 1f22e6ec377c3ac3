"""What actions may do: nothing, until a name or a switch allows it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from ditto_tasks.errors import InteractionError

NETWORK = "network:"


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Names of tools, MCP servers and network services, and three switches. There are no wildcards."""

    tools: frozenset[str] = frozenset()
    mcp: frozenset[str] = frozenset()
    network: frozenset[str] = frozenset()
    read: bool = False
    write: bool = False
    execute: bool = False

    def require_tool(self, name: str) -> None:
        """Raise PERMISSION_DENIED unless the tool is allowed."""
        _require(name in self.tools, "the tool is not permitted")

    def require_mcp(self, server: str) -> None:
        """Raise PERMISSION_DENIED unless the MCP server is allowed."""
        _require(server in self.mcp, "the MCP server is not permitted")

    def require(self, needs: Iterable[str]) -> None:
        """Raise PERMISSION_DENIED unless every need of a tool is allowed."""
        for need in sorted(needs):
            _require(self._allows(need), "the tool needs something that is not permitted")

    def _allows(self, need: str) -> bool:
        if need.startswith(NETWORK):
            return need.removeprefix(NETWORK) in self.network
        return {"read": self.read, "write": self.write, "execute": self.execute}.get(need, False)


def _require(allowed: bool, message: str) -> None:
    if not allowed:
        raise InteractionError("PERMISSION_DENIED", message)
