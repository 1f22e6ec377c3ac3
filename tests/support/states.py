"""Stores of every kind under one handle, and contexts to put into them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.errors import ContextError, DittoError
from ditto_tasks.models import Scope
from ditto_tasks.state.base import Operation, Outcome
from ditto_tasks.state.lined import LinedContextStore
from ditto_tasks.state.memory import InMemoryContextStore
from ditto_tasks.state.redis import RedisContextStore, StateClient, open_state_client
from support.keys import keys_without_ttl
from support.servers import KINDS, state_server

Store = InMemoryContextStore | RedisContextStore
SCOPE = Scope(session_id="s")
OTHER_SCOPE = Scope(session_id="s", turn_id="t")
HASH = "0" * 64


LINES = "-lines"
SERVERS = (*KINDS, *(kind + LINES for kind in KINDS if kind != "cluster"))  # memory is none


class Backend:
    """One place for states: this process's memory, or a server with a client that a worker would have."""

    def __init__(
        self,
        kind: str,
        client: StateClient | None = None,
        admin: StateClient | None = None,
        made: type[RedisContextStore] = RedisContextStore,
    ) -> None:
        self.kind = kind
        self._made = made
        self.client = client
        self.admin = admin

    def store(self, **options: Any) -> Store:
        """A store; on a server all stores see the same states, in memory each has its own."""
        return InMemoryContextStore(**options) if self.client is None else self._made(self.client, **options)

    def empty(self) -> None:
        """Forget every state."""
        if self.admin is not None:
            self.admin.flushall()

    def lasting_keys(self) -> Sequence[str]:
        """Keys that would stay for ever; a store makes none."""
        return [] if self.admin is None else keys_without_ttl(self.admin)


@contextmanager
def backend(kind: str, folder: Path) -> Iterator[Backend]:
    """A running backend of a kind; with LINES after it, its stores are those of a worker's tasks."""
    if kind == "memory":
        yield Backend(kind)
        return
    made = LinedContextStore if kind.endswith(LINES) else RedisContextStore
    with state_server(kind.removesuffix(LINES), folder) as server:
        client, admin = open_state_client(server.url), server.open_admin()
        yield Backend(kind, client, admin, made)
        client.close()
        admin.close()


def context_of(*ids: str, content: object = "text") -> Context:
    """A context of items with these ids and one content."""
    return parse_context({"items": [{"id": id_, "content": content} for id_ in ids]})


def ids_of(context: Context) -> list[str]:
    """The ids of a context's items, in order."""
    return [item.id for item in context.items]


def with_item(context: Context, id_: str) -> Context:
    """The context with one more item at its end."""
    return context_of(*ids_of(context), id_)


def operation(id_: str, *, epoch: int = 0, input_hash: str = HASH) -> Operation:
    """An operation whose input does not matter."""
    return Operation(id_, input_hash, epoch)


def committing(store: Store, id_: str, expected_version: str | None, *ids: str) -> Callable[[], Outcome]:
    """A call that commits items with these ids as an operation, as often as it is made."""
    return partial(
        store.commit, SCOPE, operation(id_), expected_version=expected_version, next=context_of(*ids)
    )


def refused(call: Callable[[], object], code: str, kind: type[DittoError] = ContextError) -> DittoError:
    """The error of a call that has to fail with a code."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code
    return caught.value
