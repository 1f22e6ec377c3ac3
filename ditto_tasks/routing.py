"""Which queue a call goes to, and what of it may be seen in logs, events and Flower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kombu import Queue

from ditto_tasks.canonical import scope_key
from ditto_tasks.nodes import CONTEXT, NODES, ORDINARY_QUEUES, NodeTable, NodeType
from ditto_tasks.sharding import SHARD_QUEUES, shard_of, shard_queue
from ditto_tasks.task import OPTIONS_KEY

HIDDEN_ARGUMENTS: Final = "()"  # what events say of positional arguments: those are results of other tasks


def worker_queues() -> list[Queue]:
    """What a worker consumes unless told otherwise: the ordinary queues, and `ditto.ctx` for taking shards.

    They have no exchange: the queue's name is the routing key. The worker's bootstep takes the last one
    out again before anything is consumed: nobody sends to it.
    """
    return [Queue(name, routing_key=name, exchange=None) for name in (*ORDINARY_QUEUES, SHARD_QUEUES)]


def is_scoped(row: NodeType | None, wire: Mapping[str, object]) -> bool:
    """True if the call works on stored state: a CONTEXT node, or another that mutates, given a scope."""
    return row is not None and (row.domain == CONTEXT or row.mutates) and "scope" in wire


def needs_shard(row: NodeType | None, wire: Mapping[str, object]) -> bool:
    """True if the call must wait its turn among the mutations of its scope, or of its scopes."""
    if row is not None and row.many_scopes:
        return True
    if row is None or not is_scoped(row, wire):
        return False
    if _option(wire, "consistency") == "session":
        return True
    return row.mutates and (row.name != "CONTEXT.LOAD" or "sources" in wire)


def shard_queue_of(scope: object, shards: int) -> str:
    """The queue of a valid scope's shard."""
    return shard_queue(shard_of(scope_key(scope), shards))


def queue_of_shard(row: NodeType, wire: Mapping[str, object], shards: int) -> str:
    """The queue of a call that needs a shard; INVALID_INPUT for scopes that are none, or not of one shard."""
    if not row.many_scopes:
        return shard_queue_of(wire["scope"], shards)
    scopes = wire.get("scopes")
    queues = {shard_queue_of(scope, shards) for scope in scopes} if isinstance(scopes, list) else set()
    if len(queues) != 1:
        raise row.input_error.invalid_input("/scopes", "one scope or more, all of one shard")
    return queues.pop()


class Router:
    """Celery's `task_routes` function: by keyword arguments only, since args[0] is a predecessor's result."""

    def __init__(self, shards: int, nodes: NodeTable = NODES) -> None:
        self._shards = shards
        self._nodes = nodes

    def __call__(
        self,
        name: str,
        _args: Sequence[object] | None,
        kwargs: Mapping[str, object] | None,
        options: Mapping[str, object],
        task: object = None,  # noqa: ARG002 -- Celery passes it by this name
        **_more: object,
    ) -> dict[str, str] | None:
        row = self._nodes.get(name)
        if row is None or options.get("queue"):  # the sender has chosen, and was checked
            return None
        if needs_shard(row, kwargs or {}):
            return {"queue": queue_of_shard(row, kwargs or {}, self._shards)}
        return {"queue": row.queue}


def visible_arguments(node: str, queue: str, scope_hash: str | None, wire: Mapping[str, object]) -> str:
    """What logs and events say of keyword arguments: node, queue, scope hash and sizes, and no content."""
    sizes = [f"{name}={_size(value)}" for name, value in _sized(wire)]
    return f"<{' '.join(part for part in (node, queue, scope_hash, *sizes) if part)}>"


def _option(wire: Mapping[str, object], name: str) -> object:
    options = wire.get(OPTIONS_KEY)
    return options.get(name) if isinstance(options, Mapping) else None


# Keys are the caller's, so only those that the specification defines are shown by name.
_SHOWN: Final = (
    "scopes",
    "sources",
    "add",
    "ingress",
    "removeIds",
    "context",
    "memories",
    "messages",
    "ids",
    "keys",
    "actions",
)


def _sized(wire: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    return ((name, wire[name]) for name in _SHOWN if name in wire)


def _size(value: object) -> str:
    return str(len(value)) if isinstance(value, (str, list, dict)) else type(value).__name__
