"""Erasure of contexts: records, operation logs and index entries, with tombstones against late tasks.

There are two kinds of tombstones. One stands for the session or tenant: no context of it is created. The
other is an operation log whose epoch is above every other: the commit script refuses whatever comes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ditto_tasks.json_values import decode
from ditto_tasks.models import Scope
from ditto_tasks.state.commands import as_bytes
from ditto_tasks.state.encoding import (
    KEY_PREFIX,
    index_entry,
    operations_key,
    scan_pattern,
    state_key,
    tombstone_key,
)
from ditto_tasks.state.index import ScopeIndex
from ditto_tasks.state.operations import LAST_EPOCH
from ditto_tasks.state.redis import StateClient
from ditto_tasks.tenants import owner_key, tenant_in

TOMBSTONE_TTL_MS: Final = 7 * 24 * 3_600_000  # no queue redelivers a message after a week
PAGE: Final = 500  # keys a round trip


@dataclass(frozen=True, slots=True)
class ContextSubject:
    """Whose contexts: those of one session, or of all sessions of one tenant."""

    session: str | None = None
    tenant: str | None = None

    @property
    def owner(self) -> str:
        """What stands for it in keys."""
        if self.session is not None:
            return owner_key("session", self.session)
        return owner_key("tenant", self.tenant or "")

    def covers(self, scope: Scope) -> bool:
        """Whether a scope is theirs."""
        if self.session is not None:
            return scope.session_id == self.session
        return self.tenant is not None and tenant_in(scope.session_id) == self.tenant


class ContextErasure:
    """Erases the contexts of a subject."""

    def __init__(self, client: StateClient, subject: ContextSubject, *, key_prefix: str = KEY_PREFIX) -> None:
        self._client = client
        self._subject = subject
        self._key_prefix = key_prefix

    def mark(self) -> None:
        """Leave the tombstone of the session or tenant: from now on nothing is created."""
        self._client.set(tombstone_key(self._subject.owner, self._key_prefix), "1", px=TOMBSTONE_TTL_MS)

    def scopes(self) -> list[Scope]:
        """The scopes that have a context or an operation log now; a log outlives its context."""
        found = {entry.scope for entry in ScopeIndex(self._client, key_prefix=self._key_prefix).scopes()}
        return [scope for scope in found | set(self._logged()) if self._subject.covers(scope)]

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
            counts["context operations"] += sum(
                (as_bytes(field) or b"").startswith(b"op:") for field in fields
            )
            counts["index entries"] += score is not None
        return counts

    def _logged(self) -> Iterator[Scope]:
        """The scopes that operation logs name."""
        keys = list(self._client.scan_iter(match=scan_pattern("ops", self._key_prefix), count=PAGE))
        for start in range(0, len(keys), PAGE):
            with self._client.pipeline(transaction=False) as pipe:
                for key in keys[start : start + PAGE]:
                    pipe.hget(key, "scope")
                named = pipe.execute()
            yield from (Scope.parse(decode(as_bytes(member) or b"")) for member in named if member)
