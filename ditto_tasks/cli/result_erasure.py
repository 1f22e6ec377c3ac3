"""Erasure of what a session or tenant has in the results' database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from ditto_tasks.belongings import GROUP
from ditto_tasks.keys import Keys
from ditto_tasks.redis_replies import text
from ditto_tasks.result_backend import GROUP_PARTS, erased_result
from ditto_tasks.state.erasure import TOMBSTONE_TTL_MS

if TYPE_CHECKING:
    from redis import Redis

PAGE: Final = 500  # keys a round trip
RESULT: Final = "celery-task-meta-"
GROUP_RESULT: Final = "celery-taskset-meta-"


@dataclass
class FoundResults:
    """Tasks whose results are a subject's, and the keys of chords that wait for theirs."""

    tasks: list[str] = field(default_factory=list)
    chords: list[str] = field(default_factory=list)


class ResultErasure:
    """Erases results; whoever waits for one is told so."""

    def __init__(self, client: Redis, names: Keys, *, told_s: int) -> None:
        self._client = client
        self._names = names
        self._told_s = told_s

    def mark(self, keys: Sequence[str]) -> None:
        """Leave tombstones: from now on no result of theirs is stored."""
        leave_tombstones(self._client, keys)

    def find(self, roots: Iterable[str], tasks: Sequence[str]) -> FoundResults:
        """The results of these tasks, and of the chords of these canvases."""
        found = FoundResults(list(tasks))
        for name in members_of(self._client, [self._names.caused(root) for root in roots]):
            if name.startswith(GROUP):
                found.chords += [GROUP_RESULT + name.removeprefix(GROUP) + part for part in GROUP_PARTS]
        return found

    def erase(self, found: FoundResults) -> None:
        """Put word of the erasure in the place of each result."""
        delete(self._client, found.chords)
        for start in range(0, len(found.tasks), PAGE):
            with self._client.pipeline(transaction=False) as pipe:
                for task in found.tasks[start : start + PAGE]:
                    pipe.set(RESULT + task, erased_result(task), ex=self._told_s)
                    pipe.publish(RESULT + task, erased_result(task))
                pipe.execute()

    def remaining(self, found: FoundResults) -> int:
        """How many results there are now, beside word of their erasure."""
        return existing(self._client, found.chords) + sum(self._is_content(found.tasks))

    def _is_content(self, tasks: Sequence[str]) -> Iterable[bool]:
        for start in range(0, len(tasks), PAGE):
            page = tasks[start : start + PAGE]
            with self._client.pipeline(transaction=False) as pipe:
                for task in page:
                    pipe.getrange(RESULT + task, 0, len(erased_result(task)))
                stored = pipe.execute()
            for task, value in zip(page, stored, strict=True):
                yield value not in (b"", erased_result(task))


def leave_tombstones(client: Redis, keys: Sequence[str]) -> None:
    """Set these keys for as long as something late may come."""
    for start in range(0, len(keys), PAGE):
        with client.pipeline(transaction=False) as pipe:
            for key in keys[start : start + PAGE]:
                pipe.set(key, "1", px=TOMBSTONE_TTL_MS)
            pipe.execute()


def members_of(client: Redis, lists: Sequence[str]) -> list[str]:
    """What stands on these lists, each name once."""
    names: list[str] = []
    for start in range(0, len(lists), PAGE):
        with client.pipeline(transaction=False) as pipe:
            for key in lists[start : start + PAGE]:
                pipe.zrange(key, 0, -1)
            names += [text(name) for page in cast("list[list[bytes]]", pipe.execute()) for name in page]
    return list(dict.fromkeys(names))


def fields_of(client: Redis, hashes: Sequence[str], name: str) -> Iterator[bytes | None]:
    """One field of each of these hashes, in their order."""
    for start in range(0, len(hashes), PAGE):
        with client.pipeline(transaction=False) as pipe:
            for key in hashes[start : start + PAGE]:
                pipe.hget(key, name)
            yield from cast("list[bytes | None]", pipe.execute())


def remove_members(client: Redis, listed: str, names: Sequence[str]) -> None:
    """Take names off a list, some in each round trip."""
    for start in range(0, len(names), PAGE):
        client.zrem(listed, *names[start : start + PAGE])


def delete(client: Redis, keys: Sequence[str]) -> None:
    """Delete keys, some in each round trip."""
    for start in range(0, len(keys), PAGE):
        client.delete(*keys[start : start + PAGE])


def existing(client: Redis, keys: Sequence[str]) -> int:
    """How many of these keys exist."""
    return sum(client.exists(*keys[start : start + PAGE]) for start in range(0, len(keys), PAGE))
