"""Ditto agent nodes as Celery tasks.

Importing this package opens nothing and imports no driver: public names are imported when first asked for.
"""

from typing import TYPE_CHECKING, Final

from ditto_tasks.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ditto_tasks.cancellation import CancelToken
    from ditto_tasks.canonical import canonical_json, scope_key, stable_id
    from ditto_tasks.celery import create_app
    from ditto_tasks.client import AsyncDitto, Ditto
    from ditto_tasks.context import (
        AsyncContextNodes,
        Context,
        ContextItem,
        ContextMessage,
        ContextNodes,
        ContextPolicy,
        ContextReference,
        ContextSelection,
        ContextServices,
        InMemoryContextStore,
        RedisContextStore,
        RedisOptions,
    )
    from ditto_tasks.embedded import EmbeddedServer
    from ditto_tasks.errors import ContextError, DittoError, NodeInputError, OutcomeUnknown
    from ditto_tasks.infer.nodes import InferNodes
    from ditto_tasks.interaction.nodes import InteractionNodes
    from ditto_tasks.memory.nodes import MemoryNodes
    from ditto_tasks.models import NodeResult, Reference, Scope, from_wire, to_wire
    from ditto_tasks.retrieval.nodes import RetrievalNodes
    from ditto_tasks.settings import Settings, default_settings, load_settings

__all__ = [
    "AsyncContextNodes",
    "AsyncDitto",
    "CancelToken",
    "Context",
    "ContextError",
    "ContextItem",
    "ContextMessage",
    "ContextNodes",
    "ContextPolicy",
    "ContextReference",
    "ContextSelection",
    "ContextServices",
    "Ditto",
    "DittoError",
    "EmbeddedServer",
    "InMemoryContextStore",
    "InferNodes",
    "InteractionNodes",
    "MemoryNodes",
    "NodeInputError",
    "NodeResult",
    "OutcomeUnknown",
    "RedisContextStore",
    "RedisOptions",
    "Reference",
    "RetrievalNodes",
    "Scope",
    "Settings",
    "canonical_json",
    "create_app",
    "default_settings",
    "from_wire",
    "load_settings",
    "scope_key",
    "stable_id",
    "to_wire",
]

_HOMES: Final = {
    "AsyncContextNodes": "ditto_tasks.context",
    "AsyncDitto": "ditto_tasks.client",
    "CancelToken": "ditto_tasks.cancellation",
    "Context": "ditto_tasks.context",
    "ContextError": "ditto_tasks.errors",
    "ContextItem": "ditto_tasks.context",
    "ContextMessage": "ditto_tasks.context",
    "ContextNodes": "ditto_tasks.context",
    "ContextPolicy": "ditto_tasks.context",
    "ContextReference": "ditto_tasks.context",
    "ContextSelection": "ditto_tasks.context",
    "ContextServices": "ditto_tasks.context",
    "Ditto": "ditto_tasks.client",
    "DittoError": "ditto_tasks.errors",
    "EmbeddedServer": "ditto_tasks.embedded",
    "InMemoryContextStore": "ditto_tasks.context",
    "InferNodes": "ditto_tasks.infer.nodes",
    "InteractionNodes": "ditto_tasks.interaction.nodes",
    "MemoryNodes": "ditto_tasks.memory.nodes",
    "NodeInputError": "ditto_tasks.errors",
    "NodeResult": "ditto_tasks.models",
    "OutcomeUnknown": "ditto_tasks.errors",
    "RedisContextStore": "ditto_tasks.context",
    "RedisOptions": "ditto_tasks.context",
    "Reference": "ditto_tasks.models",
    "RetrievalNodes": "ditto_tasks.retrieval.nodes",
    "Scope": "ditto_tasks.models",
    "Settings": "ditto_tasks.settings",
    "canonical_json": "ditto_tasks.canonical",
    "create_app": "ditto_tasks.celery",
    "default_settings": "ditto_tasks.settings",
    "from_wire": "ditto_tasks.models",
    "load_settings": "ditto_tasks.settings",
    "scope_key": "ditto_tasks.canonical",
    "stable_id": "ditto_tasks.canonical",
    "to_wire": "ditto_tasks.models",
}

__getattr__ = lazy_exports(__name__, _HOMES)
