"""What every publish passes: content, scope, order and size are checked, and arguments hidden."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import ContextError, DittoError, NodeInputError, PublishError
from ditto_tasks.json_values import MAX_DEPTH, TOO_DEEP, InvalidJson, JsonObject, JsonValue, freeze, pointer
from ditto_tasks.models import WireModel
from ditto_tasks.nodes import NodeType
from ditto_tasks.routing import HIDDEN_ARGUMENTS, is_scoped, needs_shard, queue_of_shard, visible_arguments
from ditto_tasks.serialization import NAME as SERIALIZER
from ditto_tasks.serialization import dumps
from ditto_tasks.sharding import is_shard_queue
from ditto_tasks.task import OPTIONS_KEY, VERSION, Reply
from ditto_tasks.tenants import is_tenant, tenant_of
from ditto_tasks.worker.keys import CHANNEL_HEADERS, SCOPE_HEADER, SENT_HEADER, TENANT_HEADER

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
WIRE_DEPTH: Final = 204  # content may be 200 deep, and stands at most 4 levels down in an input
CONTENT_KEYS: Final = frozenset(
    {"content", "metadata", "query", "options", "arguments", "inputSchema", "value"}
)
REORDERING: Final = ("eta", "countdown", "expires", "priority", "expiration")
MISROUTING: Final = ("exchange", "routing_key")
# queues are lists, which need no declaring; the repr of arguments would hold content
_FIXED: Final[Mapping[str, object]] = {
    "serializer": SERIALIZER,
    "compression": None,
    "declare": [],
    "argsrepr": HIDDEN_ARGUMENTS,
}


@dataclass(frozen=True, slots=True)
class Publish:
    """A checked call. `queue` is that of its shard, or None where routing may choose."""

    args: Sequence[object]
    kwargs: JsonObject
    queue: str | None
    scope_hash: str | None
    session: str | None
    tenant: str | None

    def options(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:  # Celery's edge
        """Celery's options with what we add: redacted arguments, version and scope in headers."""
        headers = dict(given.get("headers") or {}, ditto_v=VERSION)
        for channels_own in CHANNEL_HEADERS:
            headers.pop(channels_own, None)
        if self.scope_hash:
            headers[SCOPE_HEADER] = self.scope_hash
        if self.tenant:
            headers[TENANT_HEADER] = self.tenant
        if self.queue:
            headers[SENT_HEADER] = int(time.time() * 1000)  # shows how long the oldest call of a shard waits
        shown = visible_arguments(name, self.queue or "", self.scope_hash, self.kwargs)
        queue = {"queue": self.queue} if self.queue else {}
        return {**given, **_FIXED, **queue, "kwargsrepr": shown, "headers": headers}


def built_in_options(given: Mapping[str, Any]) -> dict[str, Any]:  # Celery's edge
    """The options of one of Celery's own tasks, whose arguments are signatures and ids."""
    headers = dict(given.get("headers") or {}, ditto_v=VERSION)
    return {**given, **_FIXED, "kwargsrepr": "<hidden>", "headers": headers}


def check_publish(
    row: NodeType | None, args: Sequence[object] | None, kwargs: Mapping[str, object] | None, shards: int
) -> Publish:
    """The sender's checks of one call: the JSON domain, then scope and expectedVersion."""
    error = NodeInputError if row is None else row.input_error
    wire = _content(kwargs or {}, error)
    positional = [_positional(value, error) for value in args or ()]
    if row is not None and row.many_scopes:
        return Publish(positional, wire, queue_of_shard(row, wire, shards), None, None, None)
    if not is_scoped(row, wire):
        return Publish(positional, wire, None, None, None, _tenant(wire, error))
    scope = wire["scope"]
    hashed = scope_key(scope)
    version = wire.get("expectedVersion", "absent")
    if not isinstance(version, str) or not version:
        raise ContextError.invalid_input("/expectedVersion", "must be a nonempty string")
    queue = queue_of_shard(row, wire, shards) if row is not None and needs_shard(row, wire) else None
    ids = cast("Mapping[str, str]", scope)  # checked by scope_key
    return Publish(positional, wire, queue, hashed, ids.get("sessionId"), tenant_of(ids))


def _tenant(wire: JsonObject, error: type[DittoError]) -> str | None:
    """The tenant that the options of a call without a scope name."""
    options = wire.get(OPTIONS_KEY)
    tenant = options.get("tenant") if isinstance(options, dict) else None
    if tenant is None or is_tenant(tenant):
        return cast("str | None", tenant)
    raise error.invalid_input(f"/{OPTIONS_KEY}/tenant", "letters, digits, '.', '_' and '-'")


def check_order(publish: Publish, options: Mapping[str, Any]) -> None:  # Celery's edge
    """Refuse what would break the order of a shard, or send a call past it or to a shard not its own."""
    queue = options.get("queue")
    chosen = getattr(queue, "name", queue)
    if publish.queue is None:
        if isinstance(chosen, str) and is_shard_queue(chosen):
            _refuse("queue", "this call belongs to no shard")
        return
    for name in REORDERING:
        if options.get(name) is not None and options[name] != 0:
            _refuse(name, "would break the order of a scope's calls")
    if chosen not in (None, publish.queue):
        _refuse("queue", "a scope's calls go through its shard")
    for name in MISROUTING:
        if options.get(name):
            _refuse(name, "a scope's calls go through its shard")


def check_size(publish: Publish, canvas: Mapping[str, object]) -> None:
    """Refuse a message over 4 MiB; `canvas` is what a message carries beside its own arguments."""
    try:
        size = len(
            dumps([publish.args, publish.kwargs, {key: value for key, value in canvas.items() if value}])
        )
    except InvalidJson as problem:
        raise PublishError("MESSAGE_INVALID", str(problem), {"path": problem.path}) from None
    if size > MAX_MESSAGE_BYTES:
        raise PublishError("MESSAGE_TOO_LARGE", f"{size} bytes, over {MAX_MESSAGE_BYTES}", {"size": size})


def _refuse(option: str, reason: str) -> None:
    raise PublishError("SHARD_OPTION_REFUSED", f"{option}: {reason}", {"option": option})


def _content(wire: Mapping[str, object], error: type[DittoError]) -> JsonObject:
    plain = {key: _wire_value(value) for key, value in wire.items()}
    try:
        frozen = freeze(plain, max_depth=WIRE_DEPTH)
        _check_content_depth(frozen)
    except InvalidJson as problem:
        raise error.invalid_input(problem.path, problem.reason) from None
    return cast("JsonObject", frozen)


def _check_content_depth(value: JsonValue) -> None:
    """Refuse content over 200 levels. Frozen containers know their depth, so only deep ones are entered."""
    children = value.items() if isinstance(value, dict) else enumerate(cast("list[JsonValue]", value))
    for key, child in children:
        if getattr(child, "depth", 0) <= MAX_DEPTH:
            continue
        if key in CONTENT_KEYS:
            raise InvalidJson(pointer(key), TOO_DEEP)
        try:
            _check_content_depth(child)
        except InvalidJson as problem:
            raise problem.within(key) from None


def _wire_value(value: object) -> object:
    return value.wire_form() if isinstance(value, WireModel) else value


def _positional(value: object, error: type[DittoError]) -> object:
    """A predecessor's result. Celery's own tasks get signatures and ids here, which are not content."""
    try:
        return freeze(value.value if isinstance(value, Reply) else value, max_depth=WIRE_DEPTH)
    except InvalidJson as problem:
        raise error.invalid_input("/0" + problem.path, problem.reason) from None
