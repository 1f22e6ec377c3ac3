"""Names of nodes as values, for registering custom nodes: `create_app(settings, nodes=[…])`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ditto_tasks.context.nodes.table import COMPRESS, LOAD, SELECT, UPDATE


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A node type and the function that serves it."""

    type: str
    handler: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class NodeDescriptor:
    """A node type, to be defined by whoever serves it."""

    type: str

    def define(self, handler: Callable[..., Any]) -> NodeDefinition:
        """The definition that serves this node with `handler`."""
        return NodeDefinition(self.type, handler)


CONTEXT_LOAD: Final = NodeDescriptor(LOAD)
CONTEXT_SELECT: Final = NodeDescriptor(SELECT)
CONTEXT_UPDATE: Final = NodeDescriptor(UPDATE)
CONTEXT_COMPRESS: Final = NodeDescriptor(COMPRESS)
