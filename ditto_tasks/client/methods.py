"""The method table that both clients share: one method a node type, `client.<domain>.<method>(**input)`.

A test holds it equal to the node table: the nodes, their keywords and their results.
"""

from typing import Final

from ditto_tasks.client.context_methods import ContextMethods
from ditto_tasks.client.infer_methods import InferMethods
from ditto_tasks.client.interaction_methods import InteractionMethods
from ditto_tasks.client.memory_methods import MemoryMethods, RetrievalMethods
from ditto_tasks.client.node_methods import AsyncSender, Method, SyncSender

__all__ = [
    "DOMAINS",
    "AsyncSender",
    "ContextMethods",
    "InferMethods",
    "InteractionMethods",
    "MemoryMethods",
    "Method",
    "RetrievalMethods",
    "SyncSender",
]

DOMAINS: Final = (ContextMethods, MemoryMethods, RetrievalMethods, InferMethods, InteractionMethods)
