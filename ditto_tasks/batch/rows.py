"""The rows of one run in the broker's database, and word of the calls that wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ditto_tasks.batch.models import CompressRequest, Row
from ditto_tasks.belongings import ROW, notes, noting_script
from ditto_tasks.canonical import scope_key
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script, run_source
from ditto_tasks.models import Scope, from_wire, to_wire
from ditto_tasks.redis_replies import text
from ditto_tasks.tenants import owner_keys

if TYPE_CHECKING:
    from redis import Redis

PACKAGE: Final = "ditto_tasks.batch"
ROWS_TTL_S: Final = 7 * 86_400
ROWS_TTL_MS: Final = 1000 * ROWS_TTL_S  # a run can be resumed, and its report written again, for that long
PLAN: Final = "plan:"  # before the scope's hash: what a commit was about to do
OVER: Final = "over:"  # the same: what a scan saw
BEGUN: Final = "begun:"  # the same: the id of the last scan of the scope alone, until it has ended
NOT_FINAL: Final = (PLAN.encode(), OVER.encode(), BEGUN.encode())
HEARD_AT_ONCE: Final = 500
BESIDE: Final = " beside"  # after the id of a call, where its worker was at work for others


class Known(NamedTuple):
    """What an earlier delivery has left of a scope: its end, or what it was about to do."""

    final: Row | None = None
    planned: Row | None = None


class Answer(NamedTuple):
    """A call of a run was answered; `beside`: by a worker that was at work for others, too."""

    task_id: str
    beside: bool


class BatchRows:
    """Hash `<key>`: a scope's hash -> its final row; `over:<hash>` -> that it waits for its compression;
    `plan:<hash>` -> what that was about to do; `begun:<hash>` -> the scan that it is in alone.

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
        self._client.expire(self._request, ROWS_TTL_S)  # as long as the rows of a run that goes on
        if self._client.get(self._request) != asked:
            raise DittoError("RUN_MISMATCH", "a run of this name was started with other options")

    def put(
        self, rows: Iterable[Row], *, told: str, beside: bool = False, of: Mapping[str, Scope] | None = None
    ) -> None:
        """Write rows in one step with word that the call `told` is answered.

        Of the scopes `of`, by their hashes, that were erased it is written only that they were. They were
        noted before: an erasure that is not seen here has not read its lists, and finds them.
        """
        tombstones, about = list[str](), list[str | bytes]()
        for row in rows:
            scope = (of or {}).get(row.scope)
            owners = () if scope is None else owner_keys(scope.session_id)
            tombstones += [self._keys.erased(owner) for owner in owners]
            erased = _encoded(Row(scope=row.scope, status="failed", code="ERASED")) if owners else ""
            about += [row.scope, _encoded(row), str(int(row.is_final)), str(len(owners)), erased]
        news = told + BESIDE if beside else told
        keys = [self.key, self._news, *tombstones]
        run_script(self._client, PACKAGE, "put", keys, ROWS_TTL_MS, news, *about)

    def own(self, scopes: Iterable[Scope]) -> None:
        """Note whose rows name items, so that an erasure finds them when their contexts are long gone."""
        noted = self._notes(scopes)
        if noted:
            names = [name for _, name in noted]
            self._plan([self.key, *(key for key, _ in noted)], 0, *names)

    def plan(self, scopes: Mapping[str, Scope], rows: Mapping[str, Row]) -> list[Known]:
        """What is known of scopes, by their hashes. Where nothing is, write the row that a commit is to make:

        so a second delivery knows what the first one did. Whose the rows are is noted in the same step.
        """
        noted = self._notes(scopes[name] for name in rows)
        plans = [text for name in scopes for text in (name, _encoded(rows[name]) if name in rows else "")]
        keys = [self.key, *(key for key, _ in noted)]
        names = [name for _, name in noted]
        found = self._plan(keys, len(scopes), *plans, *names)
        return _pairs(cast("list[bytes | None]", found))

    def plan_again(self, row: Row) -> None:
        """Write a plan in the place of one that came to nothing."""
        self._client.hset(self.key, PLAN + row.scope, cast("str", _encoded(row)))  # bytes are fine

    def begin_scan(self, scope_hash: str, task_id: str) -> None:
        """Before the scan of one scope alone: it is in work, and is its worker's death if it never ends."""
        with self._client.pipeline() as both:
            both.hset(self.key, BEGUN + scope_hash, task_id)
            both.pexpire(self.key, ROWS_TTL_MS)
            both.execute()

    def has_begun(self, scope_hash: str, task_id: str) -> bool:
        """Whether this scan of one scope alone has begun, and has not ended."""
        found = self._client.hget(self.key, BEGUN + scope_hash)
        return found is not None and text(found) == task_id

    def get(self, scope_hashes: Sequence[str]) -> list[Row | None]:
        """The final row of each scope, else that it is over budget, else None."""
        fields = [name for scope_hash in scope_hashes for name in (scope_hash, OVER + scope_hash)]
        found = _pairs(self._client.hmget(self.key, fields)) if fields else []
        return [final or over for final, over in found]

    def final(self) -> Iterator[Row]:
        """All final rows."""
        seen = set[bytes]()
        for name, value in self._client.hscan_iter(self.key, count=HEARD_AT_ONCE):
            if name not in seen and not name.startswith(NOT_FINAL):
                seen.add(name)
                yield cast("Row", _decoded(value))

    def hear(self, timeout_s: float) -> list[Answer]:
        """The calls that were answered; waits for the first one."""
        first = self._client.blpop([self._news], timeout=timeout_s)
        if first is None:
            return []
        more = self._client.lpop(self._news, HEARD_AT_ONCE) or []
        return [_answer(text(each)) for each in (first[1], *cast("list[bytes]", more))]

    def _notes(self, scopes: Iterable[Scope]) -> list[tuple[str, str]]:
        """(list, name) of each scope's row, each once: sessions of a tenant are on one list of its."""
        noted = dict.fromkeys(
            note
            for scope in scopes
            for note in notes(self._keys, owner_keys(scope.session_id), f"{ROW}{self.key}:{scope_key(scope)}")
        )
        return list(noted)

    def _plan(self, keys: Sequence[str], *args: str | bytes | int) -> object:
        return run_source(self._client, *noting_script("plan", PACKAGE), keys, ROWS_TTL_MS, *args)


def _answer(news: str) -> Answer:
    return Answer(news.removesuffix(BESIDE), news.endswith(BESIDE))


def _pairs(found: Sequence[bytes | str | None]) -> list[Known]:
    return [
        Known(_decoded(final), _decoded(plan)) for final, plan in zip(found[::2], found[1::2], strict=True)
    ]


def _encoded(row: Row) -> bytes:
    return encode(to_wire(row))


def _decoded(stored: bytes | str | None) -> Row | None:
    if stored is None:
        return None
    return from_wire(Row, decode(stored), error=DittoError)
