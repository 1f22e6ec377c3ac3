"""Which live worker should hold which shard: rendezvous hashing that leaves shards where they are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

NOBODY: Final[Mapping[int, str]] = MappingProxyType({})


def assign(workers: Collection[str], count: int, held: Mapping[int, str] = NOBODY) -> Mapping[int, str]:
    """Shard -> worker for `count` shards; callers who see the same get the same answer.

    Loads differ by one shard at most. `held` says who holds what now: a holder keeps its shards up to
    its quota, so a newcomer moves no more than its own part, and a death moves only what the dead
    worker held. Without `held` this is plain rendezvous hashing under the quotas.
    """
    room = _quotas(sorted(set(workers)), count, held)
    owners: dict[int, str] = {}
    bids = (
        (held.get(shard) != name, _rank(shard, name), shard, name) for shard in range(count) for name in room
    )
    for _, _, shard, name in sorted(bids):
        if shard not in owners and room[name]:
            owners[shard] = name
            room[name] -= 1
    return owners


def _quotas(workers: Collection[str], count: int, held: Mapping[int, str]) -> dict[str, int]:
    """The mean for everybody, and one more for those who hold most already until nothing is left over."""
    load = Counter(held.values())
    base, over = divmod(count, len(workers) or 1)
    by_load = sorted(workers, key=lambda name: (-load[name], name))
    return {name: base + (place < over) for place, name in enumerate(by_load)}


def _rank(shard: int, worker: str) -> bytes:
    return blake2b(f"{shard}:{worker}".encode(), digest_size=8).digest()
