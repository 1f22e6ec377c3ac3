"""Erasure of contexts: records, operation logs and index entries, with a tombstone against late tasks.

The tombstone is an operation log whose epoch is above every other: the commit script refuses whatever comes
later as FENCED, as it does with tasks of a worker that lost its shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ditto_tasks.models import Scope
from ditto_tasks.state.encoding import KEY_PREFIX, index_entry, operations_key, state_key
from ditto_tasks.state.index import ScopeIndex
from ditto_tasks.state.redis import StateClient

LAST_EPOCH: Final = str(2**53 - 1)  # exact in Lua; shards' epochs are times in ms
TOMBSTONE_TTL_MS: Final = 7 * 24 * 3_600_000  # no queue redelivers a message after a week


class ContextErasure:
    """Erases the contexts of whole scopes."""

    def __init__(self, client: StateClient, *, key_prefix: str = KEY_PREFIX) -> None:
        self._client = client
        self._key_prefix = key_prefix

    def scopes_of(self, *, session: str | None = None, tenant: str | None = None) -> list[Scope]:
        """The scopes of a session, or of all sessions of a tenant, that have a context now."""
        index = ScopeIndex(self._client, key_prefix=self._key_prefix)
        if session is None:
            return [entry.scope for entry in index.scopes(f"{tenant}:")]
        named = [entry.scope for entry in index.scopes(session) if entry.scope.session_id == session]
        own = Scope(session_id=session)  # its log outlives its context, so it's always looked at
        return named if own in named else [*named, own]

    def erase(self, scopes: Iterable[Scope]) -> None:
        """Remove state, log and index entry of each scope, and leave a tombstone."""
        for scope in scopes:
            log = operations_key(scope, self._key_prefix)
            index, member = index_entry(scope, self._key_prefix)
            with self._client.pipeline(transaction=False) as pipe:
                pipe.delete(log)
                pipe.hset(log, "epoch", LAST_EPOCH)
                pipe.pexpire(log, TOMBSTONE_TTL_MS)
                pipe.delete(state_key(scope, self._key_prefix))
                pipe.zrem(index, member)
                pipe.execute()

    def remaining(self, scopes: Sequence[Scope]) -> dict[str, int]:
        """What of these scopes is there now, by kind; a tombstone's epoch is not counted."""
        counts = {"contexts": 0, "context operations": 0, "index entries": 0}
        for scope in scopes:
            index, member = index_entry(scope, self._key_prefix)
            with self._client.pipeline(transaction=False) as pipe:
                pipe.exists(state_key(scope, self._key_prefix))
                pipe.hkeys(operations_key(scope, self._key_prefix))
                pipe.zscore(index, member)
                exists, fields, score = pipe.execute()
            counts["contexts"] += exists
            counts["context operations"] += sum(1 for field in fields if field not in (b"epoch", "epoch"))
            counts["index entries"] += score is not None
        return counts
