"""The table of node types: registration, routing, clients and the graph compiler all derive from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from ditto_tasks.errors import ContextError, DittoError, NodeInputError

if TYPE_CHECKING:
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
        "BATCH": "ditto.batch",
    }
)
BATCH_QUEUE: Final = DOMAIN_QUEUES["BATCH"]
ORDINARY_QUEUES: Final = tuple(DOMAIN_QUEUES.values())
LIST: Final = "[]"
NODE_RESULT_DOMAINS: Final = frozenset({"MEMORY", "RETRIEVAL", "INFER"})


@dataclass(frozen=True, slots=True)
class NodeType:
    """One row. `mutates` is true of nodes that write their scope's state, so that they run on its shard.

    `recorded` is true where the handler has records of what it did: it answers from them, and only what is
    new asks by `stop_if_interrupted` whether the call is to stop. Every other node is asked before it runs.

    `many_scopes` is true of a mutation whose input names several scopes of one shard, as `scopes`.

    Models are `module:class`, `output` with `[]` after it where the answer is a list. They are imported
    when asked for: whoever only sends needs none of them.
    """

    name: str
    domain: str
    input: str | None = None
    output: str | None = None
    mutates: bool = False
    recorded: bool = False
    many_scopes: bool = False
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
    def input_model(self) -> type[BaseModel] | None:
        """The model of the wire input, if the row names one."""
        return None if self.input is None else _model(self.input)

    @property
    def output_model(self) -> type[BaseModel] | None:
        """The model of the output, or of its elements where `lists_output`."""
        return None if self.output is None else _model(self.output.removesuffix(LIST))

    @property
    def lists_output(self) -> bool:
        return self.output is not None and self.output.endswith(LIST)

    @property
    def input_error(self) -> type[DittoError]:
        """What a wrong input or option of the node is refused with."""
        return ContextError if self.domain == CONTEXT else NodeInputError

    @property
    def returns_node_result(self) -> bool:
        """True where a failure is a failed NodeResult, and not an exception."""
        return self.domain in NODE_RESULT_DOMAINS


NodeTable = Mapping[str, NodeType]


def _model(name: str) -> type[BaseModel]:
    module, _, attribute = name.partition(":")
    return cast("type[BaseModel]", getattr(import_module(f"ditto_tasks.{module}"), attribute))


def table(rows: Iterable[NodeType]) -> NodeTable:
    """A read-only table by name; a later row of the same name replaces an earlier one."""
    return MappingProxyType({row.name: row for row in rows})


NODES: Final[NodeTable] = table(
    [
        NodeType("CONTEXT.LOAD", CONTEXT, "context.inputs:LoadInput", "context.models:Context", mutates=True),
        NodeType("CONTEXT.SELECT", CONTEXT, "context.inputs:SelectInput", "context.models:ContextSelection"),
        NodeType(
            "CONTEXT.UPDATE", CONTEXT, "context.inputs:UpdateInput", "context.models:Context", mutates=True
        ),
        NodeType(
            "CONTEXT.COMPRESS",
            CONTEXT,
            "context.inputs:CompressInput",
            "context.models:Context",
            mutates=True,
        ),
        NodeType("MEMORY.GET", "MEMORY", "memory.models:GetInput", "memory.models:MemoryItem[]"),
        NodeType("MEMORY.QUERY", "MEMORY", "memory.models:QueryInput", "memory.models:QueryPage"),
        NodeType(
            "MEMORY.SEARCH", "MEMORY", "memory.models:SearchInput", "memory.models:MemorySearchResult[]"
        ),
        NodeType(
            "MEMORY.WRITE", "MEMORY", "memory.models:WriteInput", "memory.models:MemoryItem[]", recorded=True
        ),
        NodeType("MEMORY.UPDATE", "MEMORY", "memory.models:UpdateInput", "memory.models:MemoryItem[]"),
        NodeType("MEMORY.DELETE", "MEMORY", "memory.models:DeleteInput", "memory.models:DeleteOutput"),
        NodeType(
            "RETRIEVAL.SEARCH",
            "RETRIEVAL",
            "retrieval.models:RetrievalInput",
            "retrieval.models:RetrievalOutput",
        ),
        NodeType(
            "INFER.REASONING.SAMPLE",
            "INFER",
            "infer.models:SampleInput",
            "infer.values:Sample",
            recorded=True,
        ),
        NodeType(
            "INFER.REASONING.TRAJECTORY",
            "INFER",
            "infer.models:TrajectoryInput",
            "infer.models:Trajectory",
            recorded=True,
        ),
        NodeType(
            "INFER.REASONING.REFLECT",
            "INFER",
            "infer.models:ReflectInput",
            "infer.models:Reflection",
            recorded=True,
        ),
        NodeType(
            "INFER.REASONING.DELIBERATE",
            "INFER",
            "infer.models:DeliberateInput",
            "infer.models:Deliberation",
            recorded=True,
        ),
        NodeType("INFER.CACHE.LOOKUP", "INFER", "infer.models:LookupInput", "infer.models:Lookup"),
        NodeType("INFER.CACHE.WRITE", "INFER", "infer.models:WriteInput", "infer.models:Written"),
        NodeType(
            "INFER.CACHE.INVALIDATE", "INFER", "infer.models:InvalidateInput", "infer.models:Invalidated"
        ),
        NodeType(
            "INTERACTION.ACT.TOOL",
            "INTERACTION",
            "interaction.models:ActToolInput",
            "interaction.values:ExternalResult",
            recorded=True,
        ),
        NodeType(
            "INTERACTION.ACT.MCP",
            "INTERACTION",
            "interaction.models:ActMcpInput",
            "interaction.models:ActMcpOutput",
            recorded=True,
        ),
        NodeType(
            "INTERACTION.OBSERVE",
            "INTERACTION",
            "interaction.models:ObserveInput",
            "interaction.values:Observation",
        ),
        NodeType(
            "INTERACTION.OUTPUT",
            "INTERACTION",
            "interaction.models:OutputInput",
            "interaction.values:OutputReceipt",
            recorded=True,
        ),
    ]
)
