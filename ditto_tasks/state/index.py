"""Which scopes have a context: noted beside each write, purged when read, rebuilt from the records."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from ditto_tasks.canonical import scope_key
from ditto_tasks.json_values import decode
from ditto_tasks.models import Scope
from ditto_tasks.redis_replies import clock_ms
from ditto_tasks.state.base import StoredContext
from ditto_tasks.state.commands import IndexNote, as_bytes
from ditto_tasks.state.encoding import (
    KEY_PREFIX,
    decode_record,
    index_entry,
    index_keys,
    scan_pattern,
    scope_of_record,
    state_key,
)
from ditto_tasks.state.redis import RedisCommands, StateClient
from ditto_tasks.state.scripted import TTL_MS
from ditto_tasks.state.scripts import Script

_PAGE: Final = 500  # members or keys a round trip
_RECORDS: Final = 16  # records a round trip: a few MB at most

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class IndexedScope:
    """A scope and when its context expires, in ms of the server's clock."""

    scope: Scope
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What a rebuild found: scopes named in their records, and keys of records that name none."""

    named: int
    unnamed: tuple[str, ...]


class ScopeIndex:
    """Enumerates the scopes of one deployment; only those are named that have a context now.

    The index alone would name a little too much: a note is written with a commit that may be a conflict.
    """

    def __init__(self, client: StateClient, *, key_prefix: str = KEY_PREFIX) -> None:
        self._client = client
        self._commands = RedisCommands(client)
        self._key_prefix = key_prefix
        self._purge = Script.load("purge_index")

    def scopes(self, session_prefix: str = "") -> Iterator[IndexedScope]:
        """All scopes whose session id starts with a prefix, literally; each once, in no order."""
        for key in index_keys(self._key_prefix):
            self._commands.run(self._purge, [key], [])
            for page in _chunks(self._members(key, session_prefix), _PAGE):
                yield from self._existing(page)

    def reindex(self, *, default_ttl_ms: int = TTL_MS) -> Reindexed:
        """Note every record that names its scope; `default_ttl_ms` is for records that never expire."""
        named, unnamed = 0, list[str]()
        for keys in _chunks(self._record_keys(), _RECORDS):
            for key, record, ttl_ms in self._read(keys):
                scope = scope_of_record(record)
                if scope is None or self._key_prefix + scope_key(scope) != key:
                    unnamed.append(key)
                    continue
                index, member = index_entry(scope, self._key_prefix)
                self._commands.write_note(IndexNote(index, member, ttl_ms if ttl_ms > 0 else default_ttl_ms))
                named += 1
        return Reindexed(named, tuple(unnamed))

    def forget(self, scope: Scope) -> bool:
        """Delete a scope's context, and name it no more; False if it had none.

        Its operation log stays until it expires: a late delivery must not bring the context back.
        """
        index, member = index_entry(scope, self._key_prefix)
        deleted = bool(self._client.delete(state_key(scope, self._key_prefix)))
        self._client.zrem(index, member)
        return deleted

    def records(self, scopes: Sequence[Scope]) -> Iterator[bytes | None]:
        """The stored bytes of each scope, some in each round trip."""
        for page in _chunks(iter(scopes), _RECORDS):
            with self._client.pipeline(transaction=False) as pipeline:
                for scope in page:
                    pipeline.get(state_key(scope, self._key_prefix))
                yield from (as_bytes(record) for record in pipeline.execute())

    def read(self, scope: Scope) -> tuple[StoredContext | None, int]:
        """A scope's context, and the ms that it has left (-1: it never expires, -2: there is none)."""
        key = state_key(scope, self._key_prefix)
        record = as_bytes(self._client.get(key))
        return None if record is None else decode_record(record), int(self._client.pttl(key))

    def now_ms(self) -> int:
        """The server's clock, by which contexts expire."""
        return clock_ms(self._client.time())

    def _members(self, key: str, session_prefix: str) -> Iterator[IndexedScope]:
        seen = set[bytes | str]()
        for member, expires_ms in self._client.zscan_iter(key, count=_PAGE):
            scope = Scope.parse(decode(member))
            if member not in seen and (scope.session_id or "").startswith(session_prefix):
                seen.add(member)
                yield IndexedScope(scope, int(expires_ms))

    def _existing(self, page: list[IndexedScope]) -> Iterator[IndexedScope]:
        with self._client.pipeline(transaction=False) as pipeline:
            for entry in page:
                pipeline.exists(state_key(entry.scope, self._key_prefix))
            replies = pipeline.execute()
        yield from (entry for entry, exists in zip(page, replies, strict=True) if exists)

    def _record_keys(self) -> Iterator[str]:
        seen = set[str]()
        for key in self._client.scan_iter(match=scan_pattern("scope", self._key_prefix), count=_PAGE):
            name = (as_bytes(key) or b"").decode("utf-8", "surrogateescape")
            if name not in seen:
                seen.add(name)
                yield name

    def _read(self, keys: list[str]) -> Iterator[tuple[str, bytes, int]]:
        with self._client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.get(key)
                pipeline.pttl(key)
            replies = pipeline.execute(raise_on_error=False)
        for key, record, ttl_ms in zip(keys, replies[::2], replies[1::2], strict=True):
            if isinstance(record, bytes | str):  # gone meanwhile, or a key of another type
                yield key, as_bytes(record) or b"", ttl_ms


def _chunks(values: Iterator[ValueT], size: int) -> Iterator[list[ValueT]]:
    while chunk := list(islice(values, size)):
        yield chunk
