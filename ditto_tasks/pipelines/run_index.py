"""Lists of runs, the newest first: one of the whole deployment and one a tenant, by hashes and ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.errors import PipelineError
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.redis_replies import text
from ditto_tasks.tenants import owner_key

RecordKind: TypeAlias = Literal["pipeline", "graph", "loop"]

KEPT: Final = 10_000  # runs of a list: older ones are on no list, but can still be read by their ids


class ListClient(BrokerClient, Protocol):
    """What lists of runs need of a client beside that."""

    def zrevrange(
        self, name: str, start: int, end: int, *, withscores: bool
    ) -> Sequence[tuple[bytes, float]]: ...
    def zrevrank(self, name: str, value: str) -> int | None: ...
    def zcount(self, name: str, low: str, high: str) -> int: ...


class Listed(NamedTuple):
    """A run on a list."""

    kind: RecordKind
    run: str
    cursor: str  # asks for those after it


@dataclass(frozen=True, slots=True)
class RunIndex:
    """`clients` lends a client of the broker's database."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]

    def add(self, kind: RecordKind, run: str, *, tenant: str | None, ttl_ms: int) -> None:
        """List a new run."""
        lists = [self._list(None)] + ([] if tenant is None else [self._list(tenant)])
        with self.clients() as client:
            run_script(client, "ditto_tasks.pipelines", "list_run", lists, f"{kind}:{run}", ttl_ms, KEPT)

    def page(self, tenant: str | None, *, limit: int, cursor: str | None) -> list[Listed]:
        """Runs after the cursor, the newest first."""
        key = self._list(tenant)
        with self.clients() as lent:
            client = cast(ListClient, lent)
            start = 0 if cursor is None else _after(client, key, cursor)
            found = client.zrevrange(key, start, start + limit - 1, withscores=True)
        return [_listed(text(member), int(opened)) for member, opened in found]

    def drop(self, listed: Sequence[Listed], tenant: str | None) -> None:
        """Take runs off a list whose records have expired."""
        if listed:
            with self.clients() as client:
                client.zrem(self._list(tenant), *(f"{each.kind}:{each.run}" for each in listed))

    def _list(self, tenant: str | None) -> str:
        return Keys(self.deployment).runs(None if tenant is None else owner_key("tenant", tenant))


def _listed(member: str, opened_ms: int) -> Listed:
    kind, _, run = member.partition(":")
    return Listed(cast(RecordKind, kind), run, f"{opened_ms}:{member}")


def _after(client: ListClient, key: str, cursor: str) -> int:
    """The place after a run, or where it would be if it is not on the list any more."""
    opened, _, member = cursor.partition(":")
    if not (opened.isascii() and opened.isdecimal() and member):
        raise PipelineError.invalid_input("/cursor", "is none that a page gave")
    rank = client.zrevrank(key, member)
    return rank + 1 if rank is not None else client.zcount(key, f"({opened}", "+inf")
