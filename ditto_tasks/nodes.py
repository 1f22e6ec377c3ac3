"""The table of node types: registration, routing, clients and the graph compiler all derive from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel

CONTEXT: Final = "CONTEXT"
CUSTOM_QUEUE: Final = "ditto.context"  # nodes outside the five domains; any worker serves it
DOMAIN_QUEUES: Final[Mapping[str, str]] = MappingProxyType(
    {
        CONTEXT: "ditto.context",
        "MEMORY": "ditto.memory",
        "RETRIEVAL": "ditto.retrieval",
        "INFER": "ditto.infer",
        "INTERACTION": "ditto.interaction",
    }
)
BATCH_QUEUE: Final = "ditto.batch"
ORDINARY_QUEUES: Final = (*DOMAIN_QUEUES.values(), BATCH_QUEUE)
NODE_RESULT_DOMAINS: Final = frozenset({"MEMORY", "RETRIEVAL", "INFER"})


@dataclass(frozen=True, slots=True)
class NodeType:
    """One row. `mutates` is true of nodes that write their scope's state, so that they run on its shard."""

    name: str
    domain: str
    input_model: type[BaseModel] | None = None
    output_model: type[BaseModel] | None = None
    mutates: bool = False
    handlers: str | None = None  # the module whose HANDLERS run it; None for the domain's own

    @property
    def queue(self) -> str:
        """The queue of calls that need no shard."""
        return DOMAIN_QUEUES.get(self.domain, CUSTOM_QUEUE)

    @property
    def handler_module(self) -> str:
        """Where a worker finds the handler; clients never import it."""
        return self.handlers or f"ditto_tasks.{self.domain.lower()}.tasks"

    @property
    def returns_node_result(self) -> bool:
        """True where a failure is a failed NodeResult, and not an exception."""
        return self.domain in NODE_RESULT_DOMAINS


NodeTable = Mapping[str, NodeType]


def table(rows: Iterable[NodeType]) -> NodeTable:
    """A read-only table by name; a later row of the same name replaces an earlier one."""
    return MappingProxyType({row.name: row for row in rows})


NODES: Final[NodeTable] = table(
    [
        NodeType("CONTEXT.LOAD", CONTEXT, mutates=True),
        NodeType("CONTEXT.SELECT", CONTEXT),
        NodeType("CONTEXT.UPDATE", CONTEXT, mutates=True),
        NodeType("CONTEXT.COMPRESS", CONTEXT, mutates=True),
        NodeType("MEMORY.GET", "MEMORY"),
        NodeType("MEMORY.QUERY", "MEMORY"),
        NodeType("MEMORY.SEARCH", "MEMORY"),
        NodeType("MEMORY.WRITE", "MEMORY"),
        NodeType("MEMORY.UPDATE", "MEMORY"),
        NodeType("MEMORY.DELETE", "MEMORY"),
        NodeType("RETRIEVAL.SEARCH", "RETRIEVAL"),
        NodeType("INFER.REASONING.SAMPLE", "INFER"),
        NodeType("INFER.REASONING.TRAJECTORY", "INFER"),
        NodeType("INFER.REASONING.REFLECT", "INFER"),
        NodeType("INFER.REASONING.DELIBERATE", "INFER"),
        NodeType("INFER.CACHE.LOOKUP", "INFER"),
        NodeType("INFER.CACHE.WRITE", "INFER"),
        NodeType("INFER.CACHE.INVALIDATE", "INFER"),
        NodeType("INTERACTION.ACT.TOOL", "INTERACTION"),
        NodeType("INTERACTION.ACT.MCP", "INTERACTION"),
        NodeType("INTERACTION.OBSERVE", "INTERACTION"),
        NodeType("INTERACTION.OUTPUT", "INTERACTION"),
    ]
)


def queue_of(node: str, nodes: NodeTable = NODES) -> str:
    """The ordinary queue of a node; unknown nodes go where any worker can refuse them."""
    row = nodes.get(node)
    return CUSTOM_QUEUE if row is None else row.queue
