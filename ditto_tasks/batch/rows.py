"""The rows of one run in the broker's database, and word of the calls that wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from ditto_tasks.batch.models import CompressRequest, Row
from ditto_tasks.belongings import ROW, note_script, notes
from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.redis_replies import text
from ditto_tasks.tenants import owner_keys

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

ROWS_TTL_S: Final = 7 * 86_400  # a run can be resumed, and its report written again, for that long
PLAN: Final = "plan:"  # before the scope's hash: what is not final
HEARD_AT_ONCE: Final = 500


class BatchRows:
    """Hash `<key>`: a scope's hash -> its final row, `plan:<hash>` -> what is meant to become of it.

    The first final row of a scope stands, whoever writes another. List `<key>:news`: ids of answered
    calls. String `<key>:request`: what the run was asked.
    """

    def __init__(self, client: Redis, *, deployment: str, run: str) -> None:
        self._client = client
        self._keys = Keys(deployment)
        self.key = self._keys.batch(run)
        self._request = self._keys.batch_part(run, "request")
        self._news = self._keys.batch_part(run, "news")

    def begin(self, request: CompressRequest) -> None:
        """Name the run, or find that a run of this name is about the same."""
        asked = encode(to_wire(request))
        self._client.set(self._request, asked, ex=ROWS_TTL_S, nx=True)
        if self._client.get(self._request) != asked:
            raise DittoError("RUN_MISMATCH", "a run of this name was started with other options")

    def put(self, rows: Iterable[Row], *, told: str, of: Sequence[Scope] = ()) -> None:
        """Write rows in one step with word that the call `told` is answered.

        Rows of the scopes `of` are deleted if these were erased while theirs were written. They were noted
        before: an erasure that is not seen here has not read its lists, and finds them.
        """
        asked = _owned(of)
        with self._client.pipeline(transaction=True) as pipe:
            for row in rows:
                if row.is_final:
                    pipe.hsetnx(self.key, row.scope, _encoded(row))
                    if row.status != "unchanged":  # which had no plan worth deleting
                        pipe.hdel(self.key, PLAN + row.scope)
                else:
                    pipe.hset(self.key, PLAN + row.scope, _encoded(row))
            pipe.rpush(self._news, told)
            pipe.expire(self.key, ROWS_TTL_S)
            pipe.expire(self._news, ROWS_TTL_S)
            for _, owners in asked:
                pipe.exists(*(self._keys.erased(owner) for owner in owners))
            answers = pipe.execute()
        for (name, _), erased in zip(asked, answers[len(answers) - len(asked) :], strict=True):
            if erased:
                self._client.hdel(self.key, name, PLAN + name)

    def own(self, scopes: Iterable[Scope]) -> None:
        """Note whose rows name items, so that an erasure finds them when their contexts are long gone."""
        with self._client.pipeline(transaction=False) as pipe:
            for scope in scopes:
                self._note(pipe, scope)
            pipe.execute()

    def plan(self, row: Row, of: Scope) -> None:
        """Write what a commit is about to do, for a second delivery to know what it did; and whose it is."""
        with self._client.pipeline(transaction=False) as pipe:
            self._note(pipe, of)
            pipe.hset(self.key, PLAN + row.scope, cast("str", _encoded(row)))  # bytes are fine
            pipe.expire(self.key, ROWS_TTL_S)
            pipe.execute()

    def _note(self, pipe: Pipeline, scope: Scope) -> None:
        name = f"{ROW}{self.key}:{scope_key(scope)}"
        for key, member in notes(self._keys, owner_keys(scope.session_id), name):
            pipe.eval(note_script(), 1, key, str(1000 * ROWS_TTL_S), member)

    def planned(self, scope_hash: str) -> tuple[Row | None, Row | None]:
        """The final row of a scope, and the one that was planned."""
        final, plan = self._client.hmget(self.key, [scope_hash, PLAN + scope_hash])
        return _decoded(final), _decoded(plan)

    def get(self, scope_hashes: Sequence[str]) -> list[Row | None]:
        """The final row of each scope, else that it is over budget, else None."""
        fields = [name for scope_hash in scope_hashes for name in (scope_hash, PLAN + scope_hash)]
        found = [_decoded(value) for value in self._client.hmget(self.key, fields)] if fields else []
        return [final or _unless_final(plan) for final, plan in zip(found[::2], found[1::2], strict=True)]

    def final(self) -> Iterator[Row]:
        """All final rows."""
        seen = set[bytes]()
        for name, value in self._client.hscan_iter(self.key, count=HEARD_AT_ONCE):
            if name not in seen and not name.startswith(PLAN.encode()):
                seen.add(name)
                yield cast("Row", _decoded(value))

    def hear(self, timeout_s: float) -> list[str]:
        """The ids of calls that were answered; waits for the first one."""
        first = self._client.blpop([self._news], timeout=timeout_s)
        if first is None:
            return []
        more = self._client.lpop(self._news, HEARD_AT_ONCE) or []
        return [text(first[1]), *(text(each) for each in cast("list[bytes]", more))]


def _owned(scopes: Iterable[Scope]) -> list[tuple[str, Sequence[str]]]:
    """Those of the scopes that are somebody's, each with its owners."""
    owned = [(scope_key(scope), owner_keys(scope.session_id)) for scope in scopes]
    return [(name, owners) for name, owners in owned if owners]


def _encoded(row: Row) -> bytes:
    return encode(to_wire(row))


def _decoded(stored: bytes | str | None) -> Row | None:
    if stored is None:
        return None
    return from_wire(Row, decode(stored), error=DittoError)


def _unless_final(plan: Row | None) -> Row | None:
    return None if plan is not None and plan.is_final else plan  # what a commit was about to do is no end
