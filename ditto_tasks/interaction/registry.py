"""The tools of a worker, by name."""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.base import Tool
from ditto_tasks.interaction.schemas import ArgumentSchema

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class RegisteredTool:
    """A tool and its checked schema."""

    tool: Tool
    schema: ArgumentSchema


class ToolRegistry:
    """Names are unique; what is registered can be taken back. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, RegisteredTool] = {}

    def register(self, tool: Tool) -> Callable[[], None]:
        """Add a tool; returns a function that removes it. Raises INVALID_TOOL or DUPLICATE_TOOL."""
        if not _NAME.fullmatch(tool.name):
            raise InteractionError("INVALID_TOOL", "a tool's name is 1 to 64 letters, digits, _ and -")
        entry = RegisteredTool(tool, ArgumentSchema(tool.input_schema))
        with self._lock:
            if tool.name in self._tools:
                raise InteractionError("DUPLICATE_TOOL", f"the tool {tool.name} is registered already")
            self._tools[tool.name] = entry
        return lambda: self._remove(entry)

    def find(self, name: str) -> RegisteredTool:
        """Return a registered tool; raises UNKNOWN_TOOL."""
        entry = self._tools.get(name)
        if entry is None:
            raise InteractionError("UNKNOWN_TOOL", "no such tool is registered")
        return entry

    def timeout_ms(self, name: str) -> int | None:
        """Return a tool's own limit of time; None where it has none, or there is no such tool."""
        entry = self._tools.get(name)
        return None if entry is None else entry.tool.timeout_ms

    def tools(self) -> list[Tool]:
        """Return all tools, in the order of their registration."""
        with self._lock:
            return [entry.tool for entry in self._tools.values()]

    def _remove(self, entry: RegisteredTool) -> None:
        with self._lock:
            # a later tool of the same name is not ours to remove
            if self._tools.get(entry.tool.name) is entry:
                del self._tools[entry.tool.name]
