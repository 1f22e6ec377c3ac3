"""Rows of a run, and a compression whose worker dies between its steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from support.batches import BUDGET, LARGE, SMALL, hash_of, operations_of, raw_of, seed
from support.keys import documented_keys
from support.workers import BROKER_DB, client_app

from ditto_tasks.batch.models import CompressRequest, Row, Sizes
from ditto_tasks.batch.rows import PLAN, BatchRows
from ditto_tasks.batch.running import open_run
from ditto_tasks.batch.schedule import beat_schedule
from ditto_tasks.batch.tasks import compress, scan
from ditto_tasks.belongings import ROW
from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError, DittoError
from ditto_tasks.json_values import encode
from ditto_tasks.keys import Keys
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.settings import default_settings
from ditto_tasks.settings.runtime import Batch, Nightly
from ditto_tasks.task import TaskCall, TaskOptions
from ditto_tasks.tenants import owner_key, owner_keys

RUN = "r1"
SESSION = "a:1"
UNCHANGED = Row(scope="scope:1", status="unchanged", before=Sizes(items=1), after=Sizes(items=1))
OVER = Row(scope="scope:1", status="over")
FAILED = Row(scope="scope:1", status="failed", code="INVALID_STATE")


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    client = redis.Redis.from_url(server.redis_url(BROKER_DB))
    yield client
    client.close()


@pytest.fixture
def rows(broker: "redis.Redis") -> BatchRows:
    return BatchRows(broker, deployment="default", run=RUN)


def test_the_first_final_row_stands(rows: BatchRows) -> None:
    """A second final row of a scope changes nothing, whoever writes it."""
    rows.put([UNCHANGED], told="t1")
    rows.put([FAILED], told="t2")
    assert (rows.get(["scope:1"]), list(rows.final())) == ([UNCHANGED], [UNCHANGED])
    assert rows.hear(1) == ["t1", "t2"]


def test_what_is_over_or_only_planned_is_no_end(rows: BatchRows) -> None:
    """A scope over budget is known as such; what a commit was about to do is not told as done."""
    rows.put([OVER], told="t1")
    assert (rows.get(["scope:1", "scope:2"]), list(rows.final())) == ([OVER, None], [])
    rows.plan(Row(scope="scope:1", status="would-compress"), Scope(session_id=SESSION))
    assert (rows.get(["scope:1"]), list(rows.final())) == ([None], [])


def test_what_is_planned_is_noted_as_its_sessions(rows: BatchRows, broker: "redis.Redis") -> None:
    """An erasure finds the row by the list of its session, with a TTL, however the commit ends."""
    scope, keys = Scope(session_id=SESSION), Keys("default")
    session, tenant = owner_keys(SESSION)
    rows.plan(Row(scope=scope_key(scope), status="would-compress"), scope)
    assert broker.zrange(keys.owned(session), 0, -1) == [f"{ROW}{rows.key}:{scope_key(scope)}".encode()]
    assert broker.zrange(keys.owned(tenant), 0, -1) == [session.encode()]
    assert broker.ttl(keys.owned(session)) > 0


def test_a_run_keeps_to_its_request_and_its_keys_expire(rows: BatchRows, broker: "redis.Redis") -> None:
    """Another request under the same name is refused; every key of a run has a TTL and stands in the docs."""
    rows.begin(CompressRequest(match="a:"))
    rows.begin(CompressRequest(match="a:"))
    with pytest.raises(DittoError, match="RUN_MISMATCH"):
        rows.begin(CompressRequest(match="b:"))
    rows.put([UNCHANGED], told="t1")
    keys = [key.decode() for key in broker.scan_iter(match=f"{rows.key}*")]
    assert len(keys) == 3
    assert all(broker.ttl(key) > 0 for key in keys)
    assert all(any(row.matches(key) for row in documented_keys()) for key in keys)


class Postbox:
    """An application that keeps what it is given to send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_task(self, name: str, **options: Any) -> None:
        self.sent.append({"name": name, **options})

    def AsyncResult(self, task_id: str) -> Any:  # noqa: N802 -- Celery's name
        raise AssertionError(f"nothing is late, but {task_id} was asked about")


def test_rows_of_the_erased_do_not_stay(rows: BatchRows, broker: "redis.Redis") -> None:
    """Rows written after an erasure of their session or tenant go again; others' stay."""
    erased, other = Scope(session_id=SESSION), Scope(session_id="b:1")
    made = [Row(scope=scope_key(each), status="compressed", removed_ids=("i",)) for each in (erased, other)]
    rows.own([erased, other])
    broker.set(Keys("default").erased(owner_key("tenant", "a")), "1", px=60_000)
    rows.put(made, told="t", of=[erased, other])
    assert list(rows.final()) == made[1:]


def test_each_scope_has_one_operation_in_a_run(rows: BatchRows) -> None:
    """However often a run is taken up, a scope's operation is called by the run and the scope."""
    scope = Scope(session_id=SESSION)
    for _ in range(2):
        postbox = Postbox()
        run = open_run(postbox, default_settings(), rows, RUN, CompressRequest(max_items=BUDGET))
        run.planner.compress(scope)
        run.turn()
        (sent,) = postbox.sent
        assert sent["name"] == "BATCH.COMPRESS"
        assert sent["kwargs"]["ditto"] == {"operationId": f"{RUN}:{scope_key(scope)}"}


@dataclass
class Session:
    """A session over budget, and deliveries of its compression."""

    app: DittoCelery
    broker: "redis.Redis"
    state: "redis.Redis"

    def deliver(self, *, redelivered: bool = False, epoch: int = 1, refuse: str | None = None) -> object:
        wire = {"run": RUN, "scope": {"sessionId": SESSION}, "maxItems": BUDGET}
        options = TaskOptions(operation_id=f"{RUN}:{hash_of(SESSION)}")
        about = {"task_id": "t", "root_id": "t", "dependencies": self.app.dependencies}
        call = TaskCall(
            "BATCH.COMPRESS", wire, options, epoch=epoch, redelivered=redelivered, refuse=refuse, **about
        )
        return compress(call)

    @property
    def row(self) -> Row | None:
        return BatchRows(self.broker, deployment="default", run=RUN).get([hash_of(SESSION)])[0]

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
    app = client_app(server)
    yield Session(app, broker, redis_client)
    app.dependencies.close()
    app.close()


def test_a_second_delivery_after_the_row_does_nothing(session: Session) -> None:
    """The row is the end of it: neither state nor operation log is asked again."""
    session.deliver()
    record, row = raw_of(session.state, SESSION), session.row
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    assert session.deliver(redelivered=True) == {"status": "compressed"}
    assert (record is not None, session.row) == (True, row)


def test_a_scope_that_was_within_budget_is_done(session: Session) -> None:
    """A second delivery leaves alone what has grown since the first one found it within budget."""
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, {SESSION: SMALL})
    assert session.deliver() == {"status": "unchanged"}
    session.state.delete(f"ditto:context:{hash_of(SESSION)}")
    seed(session.state, {SESSION: LARGE})
    assert session.deliver(redelivered=True) == {"status": "unchanged"}
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


def operations_key() -> str:
    return f"ditto:context:ops:{{ditto:context:{hash_of(SESSION)}}}"


def test_a_scan_ends_when_its_time_is_up(
    server: EmbeddedServer, rows: BatchRows, redis_client: "redis.Redis", tmp_path: Path
) -> None:
    """A scan answers what it read within runtime.batch.chunkMs, and leaves the rest to the run."""
    names = [f"s:{number}" for number in range(32)]
    seed(redis_client, dict.fromkeys(names, 200))
    (tmp_path / "ditto.yaml").write_text("runtime: {batch: {chunkMs: 1}}")
    app = client_app(server, DITTO_CONFIG=str(tmp_path / "ditto.yaml"))
    wire = {"run": RUN, "scopes": [{"sessionId": name} for name in names]}
    call = TaskCall("BATCH.SCAN", wire, TaskOptions(), "t", "t", 0, False, app.dependencies)
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


def test_the_nightly_run_is_an_entry_of_beat() -> None:
    """Without the setting beat has nothing of ours to do; with it BATCH.RUN gets the options."""
    settings = default_settings()
    assert beat_schedule(settings) == {}
    batch = Batch(nightly=Nightly(hour=4, match="a:", max_items=50))
    runtime = settings.runtime.model_copy(update={"batch": batch})
    (entry,) = beat_schedule(settings.model_copy(update={"runtime": runtime})).values()
    assert (entry["task"], entry["kwargs"]) == ("BATCH.RUN", {"match": "a:", "maxItems": 50})
    assert entry["schedule"].hour == {4}
