"""Which calls of a run may be sent now. Pure: it sees neither clock nor server."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

from ditto_tasks.canonical import scope_key
from ditto_tasks.models import Scope
from ditto_tasks.sharding import shard_of

SHARD_DEPTH: Final = 2  # calls of a run in one shard: one in work and the next, so that the shard never idles


@dataclass(frozen=True, slots=True)
class Caps:
    """How much of a deployment one run may take at a time."""

    shards: int  # shards in which calls of the run wait or run
    scans: int  # of the calls, those that only read


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large a call may be. Each also ends when its time is up; what it has not reached is sent again."""

    scan: int  # scopes
    compress: int  # scopes
    tokens: int  # of the scopes of a compression together, unless it is one


SMALL: Final = Sizing(scan=16, compress=1, tokens=0)  # beside others: a call of theirs waits for one at most
LARGE: Final = Sizing(scan=64, compress=8, tokens=250_000)  # a MB or so


@dataclass(frozen=True, slots=True)
class Planned:
    """One call to be sent: a scan of several scopes, or the compression of some on their shard."""

    scopes: tuple[Scope, ...]
    shard: int | None = None
    tokens: tuple[int, ...] = ()  # of each scope that is to be compressed


@dataclass(frozen=True, slots=True)
class _Over:
    scope: Scope
    tokens: int


@dataclass(slots=True)
class Planner:
    """Keeps what is left to be sent, and what is out.

    Every scope is scanned first. Only shards with nothing of the run left in them make room for others.
    """

    caps: Caps
    shard_count: int
    _unread: deque[Scope] = field(default_factory=deque)
    _suspects: deque[Scope] = field(default_factory=deque)  # to be scanned, too
    _over: dict[int, deque[_Over]] = field(default_factory=dict)  # by shard; in the order of their coming
    _busy: dict[int, int] = field(default_factory=dict)  # shard -> calls that are out
    _full: set[int] = field(default_factory=set)  # shards that took no more, for now
    _scans: int = 0

    def read(self, scopes: Iterable[Scope]) -> None:
        """These have to be scanned, or scanned again."""
        self._unread.extend(scopes)

    def read_alone(self, scopes: Iterable[Scope]) -> None:
        """One of these may fail a scan, or kill its worker: each goes by itself, after all others' calls."""
        self._suspects.extend(scopes)

    def compress(self, scope: Scope, tokens: int = 0) -> None:
        """A scan found the scope, of so many tokens, over budget."""
        shard = shard_of(scope_key(scope), self.shard_count)
        self._over.setdefault(shard, deque()).append(_Over(scope, tokens))

    def next(self, most: int, sizing: Sizing) -> Iterator[Planned]:
        """The calls that may be sent now, with `most` of them out in all; each counts as sent."""
        self._full.clear()
        while self.outstanding < most and (planned := self._next(sizing)) is not None:
            yield planned

    def settle(self, planned: Planned) -> None:
        """A call was answered."""
        if planned.shard is None:
            self._scans -= 1
            return
        self._busy[planned.shard] -= 1
        if not self._busy[planned.shard]:
            del self._busy[planned.shard]

    def refuse(self, planned: Planned) -> None:
        """A shard takes no more calls: it is passed over until the next time, and its scopes stay in turn."""
        shard = cast("int", planned.shard)
        self.settle(planned)
        self._full.add(shard)
        again = map(_Over, planned.scopes, planned.tokens)
        self._over.setdefault(shard, deque()).extendleft(reversed(list(again)))

    @property
    def outstanding(self) -> int:
        """Calls that are out."""
        return self._scans + sum(self._busy.values())

    @property
    def is_done(self) -> bool:
        return not (self._unread or self._suspects or self._over or self.outstanding)

    def _next(self, sizing: Sizing) -> Planned | None:
        return self._next_compression(sizing) or self._next_scan(sizing)

    def _next_compression(self, sizing: Sizing) -> Planned | None:
        # a shard's scopes go together, so they wait for each other while there is something to read
        least = sizing.compress if self._unread else 1
        waiting = (shard for shard, over in self._over.items() if len(over) >= least)
        shard = next(filter(self._has_room, waiting), None)
        if shard is None:
            return None
        taken = list(self._taken(self._over[shard], sizing))
        if not self._over[shard]:
            del self._over[shard]
        self._busy[shard] = self._busy.get(shard, 0) + 1
        return Planned(tuple(over.scope for over in taken), shard, tuple(over.tokens for over in taken))

    @staticmethod
    def _taken(over: deque[_Over], sizing: Sizing) -> Iterator[_Over]:
        left, tokens = sizing.compress, sizing.tokens
        while True:
            first = over.popleft()
            left, tokens = left - 1, tokens - first.tokens
            yield first
            if not (over and left and over[0].tokens <= tokens):
                return

    def _has_room(self, shard: int) -> bool:
        if shard in self._full:
            return False
        out = self._busy.get(shard, 0)
        return out < SHARD_DEPTH if out else len(self._busy) < self.caps.shards

    def _next_scan(self, sizing: Sizing) -> Planned | None:
        if self._scans >= self.caps.scans:
            return None
        if self._unread:
            scopes = tuple(self._unread.popleft() for _ in range(min(sizing.scan, len(self._unread))))
        elif self._suspects and not (self._over or self.outstanding):
            scopes = (self._suspects.popleft(),)
        else:
            return None
        self._scans += 1
        return Planned(scopes)
