"""CONTEXT: the working set of an agent session, as frozen values and four nodes over them.

Names are imported when first asked for, so that this package stays light and state/ can build on its models.
"""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.canonical import canonical_json, scope_key, stable_id
    from ditto_tasks.context.base import (
        ContextCompressor,
        ContextExecution,
        ContextSelector,
        ContextServices,
        OperationQueue,
        RagStrategy,
        ReferenceResolver,
        TokenEstimator,
    )
    from ditto_tasks.context.compression import deterministic_compress
    from ditto_tasks.context.descriptors import (
        CONTEXT_COMPRESS,
        CONTEXT_LOAD,
        CONTEXT_SELECT,
        CONTEXT_UPDATE,
        NodeDefinition,
        NodeDescriptor,
    )
    from ditto_tasks.context.direct import compress_node, load_node, select_node, update_node
    from ditto_tasks.context.inputs import CompressInput, LoadInput, SelectInput, SelectStrategy, UpdateInput
    from ditto_tasks.context.items import is_protected
    from ditto_tasks.context.models import (
        Context,
        ContextItem,
        ContextMessage,
        ContextReference,
        ContextSelection,
        IngressEntry,
        parse_context,
    )
    from ditto_tasks.context.nodes.in_process import AsyncContextNodes, ContextNodes, RedisOptions
    from ditto_tasks.context.nodes.scoped import apply_mutation
    from ditto_tasks.context.policy import ContextPolicy
    from ditto_tasks.context.rag import RagCandidate, RagRequest, rag_strategy
    from ditto_tasks.context.selection import default_select
    from ditto_tasks.errors import ContextError
    from ditto_tasks.models import Scope
    from ditto_tasks.state.base import ContextStateStore, StoredContext
    from ditto_tasks.state.memory import InMemoryContextStore
    from ditto_tasks.state.queue import AsyncContextOperationQueue, ContextOperationQueue
    from ditto_tasks.state.redis import RedisContextStore

__all__ = [
    "CONTEXT_COMPRESS",
    "CONTEXT_LOAD",
    "CONTEXT_SELECT",
    "CONTEXT_UPDATE",
    "AsyncContextNodes",
    "AsyncContextOperationQueue",
    "CompressInput",
    "Context",
    "ContextCompressor",
    "ContextError",
    "ContextExecution",
    "ContextItem",
    "ContextMessage",
    "ContextNodes",
    "ContextOperationQueue",
    "ContextPolicy",
    "ContextReference",
    "ContextSelection",
    "ContextSelector",
    "ContextServices",
    "ContextStateStore",
    "InMemoryContextStore",
    "IngressEntry",
    "LoadInput",
    "NodeDefinition",
    "NodeDescriptor",
    "OperationQueue",
    "RagCandidate",
    "RagRequest",
    "RagStrategy",
    "RedisContextStore",
    "RedisOptions",
    "ReferenceResolver",
    "Scope",
    "SelectInput",
    "SelectStrategy",
    "StoredContext",
    "TokenEstimator",
    "UpdateInput",
    "apply_mutation",
    "canonical_json",
    "compress_node",
    "default_select",
    "deterministic_compress",
    "is_protected",
    "load_node",
    "parse_context",
    "rag_strategy",
    "scope_key",
    "select_node",
    "stable_id",
    "update_node",
]

_HOMES: Final = {
    "AsyncContextNodes": "ditto_tasks.context.nodes.in_process",
    "AsyncContextOperationQueue": "ditto_tasks.state.queue",
    "CONTEXT_COMPRESS": "ditto_tasks.context.descriptors",
    "CONTEXT_LOAD": "ditto_tasks.context.descriptors",
    "CONTEXT_SELECT": "ditto_tasks.context.descriptors",
    "CONTEXT_UPDATE": "ditto_tasks.context.descriptors",
    "CompressInput": "ditto_tasks.context.inputs",
    "Context": "ditto_tasks.context.models",
    "ContextCompressor": "ditto_tasks.context.base",
    "ContextError": "ditto_tasks.errors",
    "ContextExecution": "ditto_tasks.context.base",
    "ContextItem": "ditto_tasks.context.models",
    "ContextMessage": "ditto_tasks.context.models",
    "ContextNodes": "ditto_tasks.context.nodes.in_process",
    "ContextOperationQueue": "ditto_tasks.state.queue",
    "ContextPolicy": "ditto_tasks.context.policy",
    "ContextReference": "ditto_tasks.context.models",
    "ContextSelection": "ditto_tasks.context.models",
    "ContextSelector": "ditto_tasks.context.base",
    "ContextServices": "ditto_tasks.context.base",
    "ContextStateStore": "ditto_tasks.state.base",
    "InMemoryContextStore": "ditto_tasks.state.memory",
    "IngressEntry": "ditto_tasks.context.models",
    "LoadInput": "ditto_tasks.context.inputs",
    "NodeDefinition": "ditto_tasks.context.descriptors",
    "NodeDescriptor": "ditto_tasks.context.descriptors",
    "OperationQueue": "ditto_tasks.context.base",
    "RagCandidate": "ditto_tasks.context.rag",
    "RagRequest": "ditto_tasks.context.rag",
    "RagStrategy": "ditto_tasks.context.base",
    "RedisContextStore": "ditto_tasks.state.redis",
    "RedisOptions": "ditto_tasks.context.nodes.in_process",
    "ReferenceResolver": "ditto_tasks.context.base",
    "Scope": "ditto_tasks.models",
    "SelectInput": "ditto_tasks.context.inputs",
    "SelectStrategy": "ditto_tasks.context.inputs",
    "StoredContext": "ditto_tasks.state.base",
    "TokenEstimator": "ditto_tasks.context.base",
    "UpdateInput": "ditto_tasks.context.inputs",
    "apply_mutation": "ditto_tasks.context.nodes.scoped",
    "canonical_json": "ditto_tasks.canonical",
    "compress_node": "ditto_tasks.context.direct",
    "default_select": "ditto_tasks.context.selection",
    "deterministic_compress": "ditto_tasks.context.compression",
    "is_protected": "ditto_tasks.context.items",
    "load_node": "ditto_tasks.context.direct",
    "parse_context": "ditto_tasks.context.models",
    "rag_strategy": "ditto_tasks.context.rag",
    "scope_key": "ditto_tasks.canonical",
    "select_node": "ditto_tasks.context.direct",
    "stable_id": "ditto_tasks.canonical",
    "update_node": "ditto_tasks.context.direct",
}

__getattr__ = lazy_exports(__name__, _HOMES)
