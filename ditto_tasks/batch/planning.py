"""Which calls of a run may be sent now. Pure: it sees neither clock nor server."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ditto_tasks.canonical import scope_key
from ditto_tasks.models import Scope
from ditto_tasks.sharding import shard_of

SCAN_SCOPES: Final = 32  # of one scan, which also ends when its time is up
SHARD_DEPTH: Final = 2  # calls of a run in one shard: one in work and the next, so that the shard never idles


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a deployment one run may take at a time."""

    outstanding: int  # calls sent and not yet answered
    shards: int  # shards in which calls of the run wait or run
    scans: int  # of the calls, those that only read


@dataclass(frozen=True, slots=True)
class Planned:
    """One call to be sent: a scan of several scopes, or the compression of one on its shard."""

    scopes: tuple[Scope, ...]
    shard: int | None = None


@dataclass(slots=True)
class Planner:
    """Keeps what is left to be sent, and what is out.

    Every scope is scanned first. Only shards with nothing of the run left in them make room for others.
    """

    caps: Caps
    shard_count: int
    _unread: deque[Scope] = field(default_factory=deque)
    _over: dict[int, deque[Scope]] = field(default_factory=dict)  # by shard; in the order of their coming
    _busy: dict[int, int] = field(default_factory=dict)  # shard -> calls that are out
    _scans: int = 0

    def read(self, scopes: Iterable[Scope]) -> None:
        """These have to be scanned, or scanned again."""
        self._unread.extend(scopes)

    def compress(self, scope: Scope) -> None:
        """A scan found the scope over budget."""
        shard = shard_of(scope_key(scope), self.shard_count)
        self._over.setdefault(shard, deque()).append(scope)

    def next(self) -> Iterator[Planned]:
        """The calls that may be sent now; each counts as sent."""
        while (planned := self._next()) is not None:
            yield planned

    def settle(self, planned: Planned) -> None:
        """A call was answered, or could not be sent."""
        if planned.shard is None:
            self._scans -= 1
            return
        self._busy[planned.shard] -= 1
        if not self._busy[planned.shard]:
            del self._busy[planned.shard]

    @property
    def outstanding(self) -> int:
        """Calls that are out."""
        return self._scans + sum(self._busy.values())

    @property
    def is_done(self) -> bool:
        return not (self._unread or self._over or self.outstanding)

    def _next(self) -> Planned | None:
        if self.outstanding >= self.caps.outstanding:
            return None
        return self._next_compression() or self._next_scan()

    def _next_compression(self) -> Planned | None:
        shard = next((shard for shard in self._over if self._has_room(shard)), None)
        if shard is None:
            return None
        waiting = self._over[shard]
        planned = Planned((waiting.popleft(),), shard)
        if not waiting:
            del self._over[shard]
        self._busy[shard] = self._busy.get(shard, 0) + 1
        return planned

    def _has_room(self, shard: int) -> bool:
        out = self._busy.get(shard, 0)
        return out < SHARD_DEPTH if out else len(self._busy) < self.caps.shards

    def _next_scan(self) -> Planned | None:
        if not self._unread or self._scans >= self.caps.scans:
            return None
        scopes = tuple(islice(self._unread, SCAN_SCOPES))
        for _ in scopes:
            self._unread.popleft()
        self._scans += 1
        return Planned(scopes)
