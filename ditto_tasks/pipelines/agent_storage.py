"""State and memory of an agent in one process: contexts in Redis, memories in a SQLite file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from ditto_tasks.context.nodes.in_process import ContextNodes
from ditto_tasks.context.opening import open_context
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.memory.nodes import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.settings import Settings

MEMORY_FILE: Final = "memory.sqlite3"


@dataclass(frozen=True, slots=True)
class AgentStorage:
    """The two kinds of nodes that a conversation needs."""

    contexts: ContextNodes
    memories: MemoryNodes


@contextmanager
def open_agent_storage(directory: Path, settings: Settings) -> Iterator[AgentStorage]:
    """Open both; what was opened here, and only that, is closed at the end.

    Contexts are at DITTO_WORKER_CONTEXT_REDIS_URL. Without it a server of its own keeps them in `directory`,
    append-only, and is stopped at the end.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        if settings.connections.context_redis_url is None:
            settings = _with_own_server(directory, settings, opened)
        context = open_context(settings, {})
        opened.callback(context.close)
        limits = settings.memory
        store = SqlMemoryStore(f"sqlite:///{directory / MEMORY_FILE}")
        opened.callback(store.close)
        yield AgentStorage(
            ContextNodes(policy=context.policy, services=context.services),
            MemoryNodes(store, query_limit=limits.query_limit, search_limit=limits.search_limit),
        )


def _with_own_server(directory: Path, settings: Settings, opened: ExitStack) -> Settings:
    server = opened.enter_context(EmbeddedServer(directory / "state", appendonly=True))
    connections = settings.connections.model_copy(
        update={"context_redis_url": SecretStr(server.redis_url(0))}
    )
    return settings.model_copy(update={"connections": connections})
