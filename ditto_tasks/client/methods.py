"""The method table that both clients share: one attribute a node type, `client.<domain>.<method>(**input)`.

A test holds it equal to the node table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, overload

from ditto_tasks.client.models import (
    ContextReply,
    SelectReply,
    read_context,
    read_json,
    read_node_result,
    read_selection,
)
from ditto_tasks.client.protocol import Call, node_call
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import NodeResult

if TYPE_CHECKING:
    from ditto_tasks.client.aio import AsyncPending
    from ditto_tasks.client.sync import Pending

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = TypeVar("C", bound="Sender")


class Sender(Protocol):
    """A client as its methods see it."""

    def send(self, call: Call[R]) -> object:
        """Publish a call; returns its pending result."""


class SyncSender(Sender, Protocol):
    """A client whose pending results are waited for by blocking."""

    def send(self, call: Call[R]) -> Pending[R]: ...


class AsyncSender(Sender, Protocol):
    """A client whose pending results are awaited."""

    def send(self, call: Call[R]) -> AsyncPending[R]: ...


class SyncMethod(Protocol[R_co]):
    """A method of the sync client."""

    def __call__(self, **wire: object) -> Pending[R_co]: ...


class AsyncMethod(Protocol[R_co]):
    """A method of the async client."""

    def __call__(self, **wire: object) -> AsyncPending[R_co]: ...


class Method(Generic[R]):
    """A node type as a method: keyword arguments are its input, `ditto` its options."""

    def __init__(self, node: str, read: Callable[[JsonValue], R]) -> None:
        self.node = node
        self._read = read

    @overload
    def __get__(self, domain: Domain[SyncSender], owner: object = None) -> SyncMethod[R]: ...
    @overload
    def __get__(self, domain: Domain[AsyncSender], owner: object = None) -> AsyncMethod[R]: ...
    def __get__(self, domain: Domain[C], owner: object = None) -> Callable[..., object]:
        def method(**wire: object) -> object:
            return domain.client.send(node_call(self.node, wire, self._read))

        return method


class Domain(Generic[C]):
    """The nodes of one domain."""

    def __init__(self, client: C) -> None:
        self.client = client


class ContextMethods(Domain[C]):
    """CONTEXT: working contexts, by `scope` or given as `context`."""

    load = Method[ContextReply]("CONTEXT.LOAD", read_context)
    select = Method[SelectReply]("CONTEXT.SELECT", read_selection)
    update = Method[ContextReply]("CONTEXT.UPDATE", read_context)
    compress = Method[ContextReply]("CONTEXT.COMPRESS", read_context)


class MemoryMethods(Domain[C]):
    """MEMORY: durable memories."""

    get = Method[NodeResult]("MEMORY.GET", read_node_result)
    query = Method[NodeResult]("MEMORY.QUERY", read_node_result)
    search = Method[NodeResult]("MEMORY.SEARCH", read_node_result)
    write = Method[NodeResult]("MEMORY.WRITE", read_node_result)
    update = Method[NodeResult]("MEMORY.UPDATE", read_node_result)
    delete = Method[NodeResult]("MEMORY.DELETE", read_node_result)


class RetrievalMethods(Domain[C]):
    """RETRIEVAL: searches of registered targets."""

    search = Method[NodeResult]("RETRIEVAL.SEARCH", read_node_result)


class InferMethods(Domain[C]):
    """INFER: models, and a cache of what they said."""

    sample = Method[NodeResult]("INFER.REASONING.SAMPLE", read_node_result)
    trajectory = Method[NodeResult]("INFER.REASONING.TRAJECTORY", read_node_result)
    reflect = Method[NodeResult]("INFER.REASONING.REFLECT", read_node_result)
    deliberate = Method[NodeResult]("INFER.REASONING.DELIBERATE", read_node_result)
    cache_lookup = Method[NodeResult]("INFER.CACHE.LOOKUP", read_node_result)
    cache_write = Method[NodeResult]("INFER.CACHE.WRITE", read_node_result)
    cache_invalidate = Method[NodeResult]("INFER.CACHE.INVALIDATE", read_node_result)


class InteractionMethods(Domain[C]):
    """INTERACTION: tools, MCP servers and output; results are those nodes' own values as JSON."""

    tool = Method[JsonValue]("INTERACTION.ACT.TOOL", read_json)
    mcp = Method[JsonValue]("INTERACTION.ACT.MCP", read_json)
    observe = Method[JsonValue]("INTERACTION.OBSERVE", read_json)
    output = Method[JsonValue]("INTERACTION.OUTPUT", read_json)


DOMAINS = (ContextMethods, MemoryMethods, RetrievalMethods, InferMethods, InteractionMethods)
