"""Rows of a run, and a compression whose worker dies between its steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from support.batches import BUDGET, LARGE, SMALL, context_of, hash_of, operations_of, raw_of, seed
from support.keys import documented_keys
from support.workers import BROKER_DB, client_app, environment

from ditto_tasks.batch.models import CompressRequest, Row, Sizes
from ditto_tasks.batch.rows import PLAN, Answer, BatchRows, Known
from ditto_tasks.batch.tasks import compress, scan
from ditto_tasks.belongings import ROW
from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError, DittoError
from ditto_tasks.json_values import encode
from ditto_tasks.keys import Keys
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.settings import load_settings
from ditto_tasks.settings.runtime import Batch
from ditto_tasks.state.base import Operation
from ditto_tasks.state.redis import RedisContextStore
from ditto_tasks.task import NO_OPTIONS, TaskCall
from ditto_tasks.tenants import owner_key, owner_keys

RUN = "r1"
SESSION = "a:1"
UNCHANGED = Row(scope="scope:1", status="unchanged", before=Sizes(items=1), after=Sizes(items=1))
OVER = Row(scope="scope:1", status="over")
WOULD_COMPRESS = Row(scope="scope:2", status="would-compress", removed_ids=("i",))
SCOPE = Scope(session_id=SESSION)
FAILED = Row(scope="scope:1", status="failed", code="INVALID_STATE")


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    client = redis.Redis.from_url(server.redis_url(BROKER_DB))
    yield client
    client.close()


@pytest.fixture
def rows(broker: "redis.Redis") -> BatchRows:
    return BatchRows(broker, deployment="default", run=RUN)


def test_a_scan_of_one_scope_is_known_to_have_begun(rows: BatchRows, broker: "redis.Redis") -> None:
    """It has begun from its start until a row is written, and is no row itself."""
    rows.begin_scan("scope:1", "t1")
    assert [rows.has_begun("scope:1", task_id) for task_id in ("t1", "t2")] == [True, False]
    assert (rows.get(["scope:1"]), list(rows.final())) == ([None], [])
    assert broker.ttl(rows.key) > 0
    for row in (OVER, UNCHANGED):
        rows.begin_scan("scope:1", "t1")
        rows.put([row], told="t1")
        assert not rows.has_begun("scope:1", "t1")


def test_the_first_final_row_stands(rows: BatchRows) -> None:
    """A second final row of a scope changes nothing, whoever writes it."""
    rows.put([UNCHANGED], told="t1")
    rows.put([FAILED], told="t2", beside=True)
    assert (rows.get(["scope:1"]), list(rows.final())) == ([UNCHANGED], [UNCHANGED])
    assert rows.hear(1) == [Answer("t1", beside=False), Answer("t2", beside=True)]


def test_what_is_over_or_only_planned_is_no_end(rows: BatchRows) -> None:
    """A scope over budget is known as such; what a commit was about to do is not told as done."""
    rows.put([OVER], told="t1")
    assert (rows.get(["scope:1", "scope:2"]), list(rows.final())) == ([OVER, None], [])
    rows.plan({"scope:2": SCOPE}, {"scope:2": WOULD_COMPRESS})
    assert (rows.get(["scope:1", "scope:2"]), list(rows.final())) == ([OVER, None], [])


def test_a_plan_stands_until_it_is_known_to_have_come_to_nothing(rows: BatchRows) -> None:
    """A second delivery is told what the first one planned, or wrote, and does not write over it."""
    other = WOULD_COMPRESS.model_copy(update={"removed_ids": ("x",)})
    assert rows.plan({"scope:2": SCOPE}, {"scope:2": WOULD_COMPRESS}) == [Known()]
    assert rows.plan({"scope:2": SCOPE}, {"scope:2": other}) == [Known(planned=WOULD_COMPRESS)]
    rows.plan_again(other)
    assert rows.plan({"scope:2": SCOPE}, {}) == [Known(planned=other)]
    ended = other.model_copy(update={"status": "compressed"})
    rows.put([ended], told="t")
    assert rows.plan({"scope:2": SCOPE}, {"scope:2": other}) == [Known(final=ended)]
    assert rows.plan({"scope:2": SCOPE}, {}) == [Known(final=ended)]


def test_nothing_stays_beside_a_final_row(rows: BatchRows, broker: "redis.Redis") -> None:
    """What a scan saw and what a commit planned go as the end of a scope is written."""
    rows.put([OVER], told="t1")
    rows.plan({OVER.scope: SCOPE}, {OVER.scope: WOULD_COMPRESS.model_copy(update={"scope": OVER.scope})})
    assert broker.hlen(rows.key) == 2
    rows.put([UNCHANGED], told="t2")
    rows.put([OVER], told="t3")
    assert broker.hkeys(rows.key) == [UNCHANGED.scope.encode()]


def test_what_is_planned_is_noted_as_its_sessions(rows: BatchRows, broker: "redis.Redis") -> None:
    """An erasure finds the row by the list of its session, with a TTL, however the commit ends; what is only
    looked at is nobody's.
    """
    keys, names = Keys("default"), [f"a:{number}" for number in range(3)]
    scopes = {hash_of(name): Scope(session_id=name) for name in names}
    rows.plan(scopes, {hash_of("a:0"): WOULD_COMPRESS, hash_of("a:2"): WOULD_COMPRESS})
    for name in names:
        session, tenant = owner_keys(name)
        noted = [] if name == "a:1" else [f"{ROW}{rows.key}:{hash_of(name)}".encode()]
        assert broker.zrange(keys.owned(session), 0, -1) == noted
        assert (session.encode() in broker.zrange(keys.owned(tenant), 0, -1)) == (name != "a:1")
    assert broker.ttl(keys.owned(owner_keys("a:0")[0])) > 0


def test_a_run_keeps_to_its_request_and_its_keys_expire(rows: BatchRows, broker: "redis.Redis") -> None:
    """Another request under the same name is refused; every key of a run has a TTL and stands in the docs."""
    rows.begin(CompressRequest(match="a:"))
    broker.expire(f"{rows.key}:request", 60)
    rows.begin(CompressRequest(match="a:"))
    assert broker.ttl(f"{rows.key}:request") > 60
    with pytest.raises(DittoError, match="RUN_MISMATCH"):
        rows.begin(CompressRequest(match="b:"))
    rows.put([UNCHANGED], told="t1")
    rows.plan({"scope:2": SCOPE}, {"scope:2": WOULD_COMPRESS})
    keys = [key.decode() for key in broker.scan_iter(match=f"{rows.key}*")]
    assert len(keys) == 3
    assert all(broker.ttl(key) > 0 for key in keys)
    assert all(any(row.matches(key) for row in documented_keys()) for key in keys)


def test_rows_of_the_erased_do_not_stay(rows: BatchRows, broker: "redis.Redis") -> None:
    """After an erasure of its session a row says only that; others' are written, and all is heard."""
    erased, other = Scope(session_id=SESSION), Scope(session_id="b:1")
    made = [Row(scope=scope_key(each), status="compressed", removed_ids=("i",)) for each in (erased, other)]
    rows.own([erased, other])
    broker.set(Keys("default").erased(owner_key("tenant", "a")), "1", px=60_000)
    rows.put(made, told="t", of={scope_key(each): each for each in (erased, other)})
    ended = Row(scope=scope_key(erased), status="failed", code="ERASED")
    assert rows.get([row.scope for row in made]) == [ended, made[1]]
    assert [answer.task_id for answer in rows.hear(1)] == ["t"]


@dataclass
class Session:
    """A session over budget, and deliveries of its compression."""

    app: DittoCelery
    broker: "redis.Redis"
    state: "redis.Redis"

    def deliver(
        self,
        *sessions: str,
        redelivered: bool = False,
        epoch: int = 1,
        refuse: str | None = None,
        beside: bool = False,
        task_id: str = "",
    ) -> object:
        names = sessions or (SESSION,)
        wire = {"run": RUN, "scopes": [{"sessionId": name} for name in names], "maxItems": BUDGET}
        task_id = task_id or uuid4().hex  # a run that is taken up again sends other calls
        about = {"task_id": task_id, "root_id": task_id, "dependencies": self.app.dependencies}
        call = TaskCall(
            "BATCH.COMPRESS",
            wire,
            NO_OPTIONS,
            epoch=epoch,
            redelivered=redelivered,
            refuse=refuse,
            beside=lambda _seconds: beside,
            **about,
        )
        return compress(call)

    def rows(self, *sessions: str) -> list[Row | None]:
        return BatchRows(self.broker, deployment="default", run=RUN).get([hash_of(name) for name in sessions])

    def statuses(self, *sessions: str) -> list[str | None]:
        """What became of each."""
        return [None if row is None else row.code or row.status for row in self.rows(*sessions)]

    @property
    def row(self) -> Row | None:
        return self.rows(SESSION)[0]

    def plan_what_comes_to_nothing(self) -> None:
        """As if a worker had died after its plan and before its commit."""
        stale = Row(scope=hash_of(SESSION), status="would-compress", removed_ids=("gone",))
        rows = BatchRows(self.broker, deployment="default", run=RUN)
        rows.plan({stale.scope: SCOPE}, {stale.scope: stale})

    def forget_row(self, *, keep_plan: bool) -> Row:
        """As if the worker had died after its commit, before its row."""
        row, key = self.row, f"ditto:default:batch:{RUN}"
        assert row is not None
        self.broker.hdel(key, row.scope)
        if keep_plan:
            planned = row.model_copy(update={"status": "would-compress"})
            self.broker.hset(key, PLAN + row.scope, encode(to_wire(planned)))
        self.broker.expire(key, 60)
        return row


@pytest.fixture
def session(server: EmbeddedServer, broker: "redis.Redis", redis_client: "redis.Redis") -> Iterator[Session]:
    seed(redis_client, {SESSION: LARGE})
    settings = load_settings(None, environment(server))
    runtime = settings.runtime.model_copy(
        update={"batch": Batch(chunk_ms=60_000)}
    )  # not over on a busy machine
    app = create_app(settings.model_copy(update={"runtime": runtime}))
    yield Session(app, broker, redis_client)
    app.dependencies.close()
    app.close()


def test_a_second_delivery_after_the_row_does_nothing(session: Session) -> None:
    """The row is the end of it: neither state nor operation log is asked again."""
    session.deliver()
    record, row = raw_of(session.state, SESSION), session.row
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    session.deliver(redelivered=True)
    assert (record is not None, session.row) == (True, row)


def test_a_scope_that_was_within_budget_is_done(session: Session) -> None:
    """A second delivery leaves alone what has grown since the first one found it within budget."""
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, {SESSION: SMALL})
    session.deliver()
    assert session.statuses(SESSION) == ["unchanged"]
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, {SESSION: LARGE})
    session.deliver(redelivered=True)
    assert session.statuses(SESSION) == ["unchanged"]
    assert operations_of(session.state, SESSION) == 0


def test_a_death_between_commit_and_row_is_made_good(session: Session) -> None:
    """The next delivery writes nothing again, and its row says what the first one did."""
    session.deliver()
    record = raw_of(session.state, SESSION)
    row = session.forget_row(keep_plan=True)
    session.deliver(redelivered=True, epoch=2)
    assert (session.row, raw_of(session.state, SESSION)) == (row, record)
    assert operations_of(session.state, SESSION) == 1


def test_a_commit_whose_plan_is_lost_is_still_no_second_one(session: Session) -> None:
    """Without the plan the row can say only that the session was compressed."""
    session.deliver()
    record = raw_of(session.state, SESSION)
    session.forget_row(keep_plan=False)
    session.deliver(redelivered=True)
    assert session.row == Row(scope=hash_of(SESSION), status="compressed")
    assert (raw_of(session.state, SESSION), operations_of(session.state, SESSION)) == (record, 1)


def test_a_stale_owner_writes_no_row(session: Session) -> None:
    """A worker that lost the shard is fenced off, and leaves the row to the new owner."""
    session.deliver(epoch=5)
    seed_again = raw_of(session.state, SESSION)
    session.forget_row(keep_plan=False)
    session.state.hdel(
        operations_key(), *[name for name in session.state.hkeys(operations_key()) if b"op:" in name]
    )
    grown = {SESSION: LARGE}
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, grown)
    with pytest.raises(ContextError, match="FENCED"):
        session.deliver(epoch=4)
    assert (session.row, seed_again is not None) == (None, True)


def operations_key(session: str = SESSION) -> str:
    return f"ditto:context:ops:{{ditto:context:{hash_of(session)}}}"


def test_a_scan_ends_when_its_time_is_up(
    server: EmbeddedServer, rows: BatchRows, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A scan answers what it read within runtime.batch.chunkMs, and leaves the rest to the run."""
    names = [f"s:{number}" for number in range(32)]
    seed(redis_client, dict.fromkeys(names, 200))
    (tmp_path / "ditto.yaml").write_text("runtime: {batch: {chunkMs: 1}}")
    app = client_app(server, DITTO_CONFIG=str(tmp_path / "ditto.yaml"))
    wire = {"run": RUN, "scopes": [{"sessionId": name} for name in names]}
    call = TaskCall("BATCH.SCAN", wire, NO_OPTIONS, "t", "t", 0, False, app.dependencies)
    read = scan(call)
    app.dependencies.close()
    found = [row for row in rows.get([hash_of(name) for name in names]) if row is not None]
    assert 1 <= len(found) < len(names)
    assert read == {"scopes": len(found)}


def test_a_refused_call_ends_as_its_code(session: Session) -> None:
    """A call that took too long before is refused, and changes nothing."""
    record = raw_of(session.state, SESSION)
    session.deliver(refuse="TIMEOUT")
    assert session.row == Row(scope=hash_of(SESSION), status="failed", code="TIMEOUT")
    assert raw_of(session.state, SESSION) == record


def test_a_refused_call_of_several_scopes_is_nobodys_end(session: Session) -> None:
    """Which of them took too long shows alone: the call fails, and nothing is recorded of any."""
    seed(session.state, {"a:2": LARGE})
    with pytest.raises(ContextError, match="TIMEOUT"):
        session.deliver(SESSION, "a:2", refuse="TIMEOUT")
    assert session.statuses(SESSION, "a:2") == [None, None]
    session.deliver("a:2", redelivered=True)
    assert session.statuses("a:2") == ["compressed"]


def test_scopes_of_one_call_end_each_for_itself(session: Session) -> None:
    """What fails of several scopes changes nothing for its neighbours; each change is one operation."""
    seed(session.state, {"a:2": SMALL, "a:4": LARGE})
    session.state.set(f"ditto:context:{hash_of('a:5')}", b"{", px=60_000)
    names = (SESSION, "a:2", "a:3", "a:4", "a:5")
    assert session.deliver(*names) == {"scopes": len(names)}
    ended = ["compressed", "unchanged", "CONTEXT_NOT_FOUND", "compressed", "INVALID_STATE"]
    assert session.statuses(*names) == ended
    assert [operations_of(session.state, name) for name in names] == [1, 0, 0, 1, 0]
    records = [raw_of(session.state, name) for name in names]
    session.deliver(*names, redelivered=True)
    assert (session.statuses(*names), [raw_of(session.state, name) for name in names]) == (ended, records)


def test_a_death_between_two_commits_of_a_call_is_made_good(session: Session) -> None:
    """The call runs again: what was committed is not done twice and has its sizes, the rest is done now.

    A plan of before that had come to nothing does not pass for what was committed.
    """
    store, newer = RedisContextStore(session.state), Operation("by the new owner", "h", epoch=9)
    store.commit(Scope(session_id="a:2"), newer, expected_version=None, next=context_of(LARGE))
    session.plan_what_comes_to_nothing()
    with pytest.raises(ContextError, match="FENCED"):
        session.deliver(SESSION, "a:2", epoch=5)
    assert [operations_of(session.state, name) for name in (SESSION, "a:2")] == [1, 1]
    assert session.statuses(SESSION, "a:2") == [None, None]
    record = raw_of(session.state, SESSION)
    session.deliver(SESSION, "a:2", epoch=10, redelivered=True)
    assert raw_of(session.state, SESSION) == record
    assert [operations_of(session.state, name) for name in (SESSION, "a:2")] == [1, 2]
    for row in session.rows(SESSION, "a:2"):
        assert row is not None
        assert (row.status, row.before and row.before.items) == ("compressed", LARGE)
        assert len(row.removed_ids or ()) == LARGE - BUDGET


def test_a_scope_is_the_same_operation_in_whichever_call_it_comes(session: Session) -> None:
    """Sent again alone, a scope is known to have been compressed, also after it has grown."""
    seed(session.state, {"a:2": LARGE})
    session.deliver(SESSION, "a:2")
    session.forget_row(keep_plan=True)
    log = operations_key()
    kept = session.state.dump(log)
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, {SESSION: LARGE})
    assert session.state.dump(log) == kept
    session.deliver(SESSION)
    row = session.row
    assert (row and row.status, operations_of(session.state, SESSION)) == ("compressed", 1)
    assert raw_of(session.state, SESSION) is not None
    assert len((row and row.removed_ids) or ()) == LARGE - BUDGET


def test_a_plan_that_came_to_nothing_is_made_again(session: Session) -> None:
    """A worker died after its plan and before its commit: the next one plans by what is there now."""
    session.plan_what_comes_to_nothing()
    session.deliver(redelivered=True)
    row = session.row
    assert row is not None
    assert (row.status, row.before and row.before.items) == ("compressed", LARGE)
    assert "gone" not in (row.removed_ids or ())


def test_a_call_ends_when_its_time_is_up(
    server: EmbeddedServer, rows: BatchRows, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A compression does at least one scope, and leaves to the run what it has no time for, undone."""
    names = [f"c:{number}" for number in range(8)]
    seed(redis_client, dict.fromkeys(names, 400))
    (tmp_path / "ditto.yaml").write_text("runtime: {batch: {chunkMs: 1}}")
    app = client_app(server, DITTO_CONFIG=str(tmp_path / "ditto.yaml"))
    wire = {"run": RUN, "scopes": [{"sessionId": name} for name in names], "maxItems": BUDGET}
    done = compress(TaskCall("BATCH.COMPRESS", wire, NO_OPTIONS, "t", "t", 1, False, app.dependencies))
    app.dependencies.close()
    found = [row is not None for row in rows.get([hash_of(name) for name in names])]
    assert done == {"scopes": found.count(True)}
    assert found == [True] + [False] * 7
    assert [operations_of(redis_client, name) for name in names] == [1] + [0] * 7


@pytest.mark.parametrize("beside", [True, False])
def test_a_run_is_told_of_calls_of_others(session: Session, beside: bool) -> None:
    """Who did a call of the run says whether it was at work for others, too."""
    session.deliver(beside=beside, task_id="t")
    rows = BatchRows(session.broker, deployment="default", run=RUN)
    assert rows.hear(1) == [Answer("t", beside=beside)]
