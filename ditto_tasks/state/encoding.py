"""Keys and bytes of stored contexts: ours as they are written, those of other runtimes as they are read."""

import hashlib
import re
from functools import lru_cache
from typing import Final, NamedTuple

from ditto_tasks.canonical import canonical_json, scope_key
from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import InvalidJson, JsonObject, JsonValue, decode, encode
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.state.base import StoredContext
from ditto_tasks.tenants import owner_keys

KEY_PREFIX: Final = "ditto:context:"
# Also the layout of a JavaScript writer that uses UUIDs; lua/matches.lua has the same rule.
_OUR_HEAD: Final = re.compile(rb'\{"version":"([0-9a-f-]{36})"')
INDEX_SHARDS: Final = 8  # so that in a cluster the index of a deployment is not one node's burden


def state_key(scope: Scope, key_prefix: str = KEY_PREFIX) -> str:
    """Where the context of a scope is; ContextError INVALID_INPUT for a scope that is none."""
    return key_prefix + scope_key(scope)


def operations_key(scope: Scope, key_prefix: str = KEY_PREFIX) -> str:
    """Where its operation log is: the braces put it into the state key's slot of a cluster."""
    return f"{key_prefix}ops:{{{state_key(scope, key_prefix)}}}"


def tombstones_of(scope: Scope, key_prefix: str = KEY_PREFIX) -> list[str]:
    """The keys of which one exists when the scope's session or tenant was erased."""
    return [tombstone_key(owner, key_prefix) for owner in owner_keys(scope.session_id)]


def tombstone_key(owner: str, key_prefix: str = KEY_PREFIX) -> str:
    """Where it's noted that an owner was erased."""
    return f"{key_prefix}erased:{owner}"


def index_keys(key_prefix: str = KEY_PREFIX) -> list[str]:
    """The sorted sets that together name all scopes."""
    return [f"{key_prefix}index:{shard}" for shard in range(INDEX_SHARDS)]


def index_entry(scope: Scope, key_prefix: str = KEY_PREFIX) -> tuple[str, bytes]:
    """The sorted set that names a scope, and the member that stands for it."""
    member = canonical_json(to_wire(Scope.parse(scope))).encode()
    shard = hashlib.sha256(member).digest()[0] % INDEX_SHARDS
    return index_keys(key_prefix)[shard], member


def scan_pattern(kind: str, key_prefix: str = KEY_PREFIX) -> str:
    """What SCAN finds all keys of a kind by; the prefix is taken literally."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", key_prefix) + f"{kind}:*"


class Place(NamedTuple):
    """All names of a scope's state: its keys, and where the index names it."""

    state: str
    log: str
    index_key: str
    member: bytes


def place_of(scope: Scope, key_prefix: str = KEY_PREFIX) -> Place:
    """Where a scope's state, operation log and index entry are."""
    return _place(Scope.parse(scope), key_prefix)


@lru_cache(maxsize=4_096)  # a mutation needs it several times, and a session has many mutations
def _place(scope: Scope, key_prefix: str) -> Place:
    keys = state_key(scope, key_prefix), operations_key(scope, key_prefix)
    return Place(*keys, *index_entry(scope, key_prefix))


def encode_record(version: str, context: Context, scope: Scope) -> bytes:
    """The value to store; `version` comes first, where scripts look for it, and readers ignore `scope`."""
    return encode({"version": version, "context": to_wire(context), "scope": to_wire(Scope.parse(scope))})


def decode_record(raw: bytes) -> StoredContext:
    """The stored context, whoever wrote it; ContextError INVALID_STATE."""
    record = _decode_object(raw)
    version = _version_in(raw, record)
    if version is None:
        raise _invalid_state("has no version")
    try:
        return StoredContext(version, parse_context(record.get("context")))
    except ContextError as error:
        raise _invalid_state("holds no valid context") from error


def version_of_record(raw: bytes) -> str | None:
    """The version of a record without looking at its context; INVALID_STATE if it is not JSON."""
    return _version_in(raw, _decode(raw))


def scope_of_record(raw: bytes) -> Scope | None:
    """The scope that a record of ours names, or None."""
    try:
        record = _decode(raw)
        return Scope.parse(record.get("scope")) if isinstance(record, dict) else None
    except ContextError:
        return None


def _version_in(raw: bytes, record: JsonValue) -> str | None:
    # First the bytes that scripts compare: a record with two versions must not have two meanings here.
    head = _OUR_HEAD.match(raw)
    if head:
        return head[1].decode()
    version = record.get("version") if isinstance(record, dict) else None
    return version if isinstance(version, str) and version else None


def _decode_object(raw: bytes) -> JsonObject:
    record = _decode(raw)
    if not isinstance(record, dict):
        raise _invalid_state("is not an object")
    return record


def _decode(raw: bytes) -> JsonValue:
    try:
        return decode(raw)
    except InvalidJson as error:
        raise _invalid_state("is not JSON") from error


def _invalid_state(reason: str) -> ContextError:
    return ContextError("INVALID_STATE", f"the stored record {reason}")
