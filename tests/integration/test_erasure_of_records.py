"""`ditto erase` on a deployment that has worked: no database holds a word of the session afterwards."""

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from celery import chain
from support.deployments import Deployment, deployment
from support.erasures import erase, holding
from support.memories import remember
from support.polling import eventually
from support.workers import BROKER_DB, CONTEXT_DB

from ditto_tasks.batch.models import Row
from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.canonical import scope_key
from ditto_tasks.celery import create_app
from ditto_tasks.cli.record_erasure import PAGE
from ditto_tasks.client.sync import Ditto
from ditto_tasks.errors import ContextError
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.models import Scope
from ditto_tasks.sharding import shard_of
from ditto_tasks.state.encoding import operations_key, state_key
from ditto_tasks.tenants import owner_key
from ditto_tasks.worker.dead_letters import ReadingChannel, letter_entry, read_letter
from ditto_tasks.worker.guard import open_envelope

WAIT_S = 30.0


@pytest.fixture(scope="module")
def running() -> Iterator[Deployment]:
    """A deployment with one worker."""
    with deployment() as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def client(running: Deployment) -> Iterator[Ditto]:
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def word() -> str:
    """A word that nobody else says."""
    return f"canary{uuid4().hex}"


def kinds(keys: list[str]) -> set[str]:
    """What keys are of, by the word that tells."""
    known = (
        "pipeline:",
        "effect:",
        "events:",
        "infer-cache:",
        "celery-task-meta-",
        "scope:",
        "output",
        "dead",
    )
    return {kind.strip(":-") for kind in known for key in keys if kind in key}


def work(running: Deployment, client: Ditto, session: str, word: str) -> None:
    """Leave traces of every kind that a session leaves."""
    scope = {"sessionId": session}
    goal = {"id": "goal", "content": word, "metadata": {"currentGoal": True}}
    client.answer(scope, f"what is {word}?", init=[goal], remember=True).get(WAIT_S)
    create = {"scope": {**scope, "turnId": word}, "add": [goal], "ditto": {"onMissing": "create"}}
    said = {"deliveryId": word, "message": {"role": "assistant", "content": word}}
    app = client.app
    steps = [app.signature("CONTEXT.UPDATE", kwargs=create)]
    steps += [app.signature("INTERACTION.OUTPUT", kwargs=said, immutable=True)]
    chain(*steps, app=app).apply_async().get(timeout=WAIT_S)
    cached = {"key": {"scope": scope, "key": word}, "value": word, "ttlMs": 600_000, "tags": [word]}
    client.invoke("INFER.CACHE.WRITE", cached).get(WAIT_S)
    with closing(SqlMemoryStore(running.variables["DITTO_WORKER_MEMORY_URL"])) as store:
        remember(MemoryNodes(store), word, key=f"{session}/1")


@pytest.mark.parametrize("by", ["session", "tenant"])
def test_no_word_of_an_erased_session_is_left(running: Deployment, client: Ditto, word: str, by: str) -> None:
    """A pipeline, its results, effects and events, a cache entry and memories are gone; others' are there."""
    tenant, other = f"t{uuid4().hex}", f"other{uuid4().hex}"
    session = f"{tenant}:s"
    work(running, client, f"{tenant}x:s", other)
    others = set(holding(running.server, other))
    work(running, client, session, word)
    before = holding(running.server, word)
    assert kinds(before) >= {"pipeline", "effect", "infer-cache", "celery-task-meta", "scope", "output"}
    counts = erase(running, f"--{by}", session if by == "session" else tenant)
    for kind in ("pipelines", "effects", "cache entries", "results", "outputs", "contexts", "memories"):
        assert counts[kind][0] > 0, kind
        assert counts[kind][1] == 0, kind
    assert holding(running.server, word) == []
    assert holding(running.server, session) == []
    assert others <= set(holding(running.server, other))
    database = str(running.variables["DITTO_WORKER_MEMORY_URL"]).removeprefix("sqlite:///")
    assert word.encode() not in Path(database).read_bytes()


def test_an_output_behind_many_others_is_erased(running: Deployment, client: Ditto, word: str) -> None:
    """The stream is read in pages, to its end; the others' outputs stay."""
    with redis.Redis.from_url(running.server.redis_url(BROKER_DB)) as broker:
        with broker.pipeline() as pipe:
            for _ in range(PAGE):
                pipe.xadd("ditto:default:output", {"deliveryId": f"not {word}"})
            pipe.execute()
        said = {"deliveryId": word, "message": {"role": "assistant", "content": word}}
        scope = {"sessionId": f"t{word}:s"}
        create = client.app.signature(
            "CONTEXT.UPDATE", kwargs={"scope": scope, "ditto": {"onMissing": "create"}}
        )
        say = client.app.signature("INTERACTION.OUTPUT", kwargs=said, immutable=True)
        chain(create, say, app=client.app).apply_async().get(timeout=WAIT_S)
        before = broker.xlen("ditto:default:output")
        assert erase(running, "--session", scope["sessionId"])["outputs"] == (1, 0)
        assert broker.xlen("ditto:default:output") == before - 1


def test_late_calls_of_an_erased_session_are_refused(running: Deployment, client: Ditto, word: str) -> None:
    """Nothing is sent for it, not even of a turn that never was; another session of the tenant goes on."""
    tenant = f"t{uuid4().hex}"
    erase(running, "--session", f"{tenant}:s")
    for ids in ({"sessionId": f"{tenant}:s"}, {"sessionId": f"{tenant}:s", "turnId": "new"}):
        with pytest.raises(ContextError, match="ERASED"):
            client.context.load(scope=ids, sources=[{"id": "a", "content": word}]).get(WAIT_S)
    client.context.load(scope={"sessionId": f"{tenant}:t"}, sources=[{"id": "a", "content": "x"}]).get(WAIT_S)
    late = {"key": {"scope": {"sessionId": f"{tenant}:s"}, "key": "k"}, "value": word, "ttlMs": 60_000}
    written = client.invoke("INFER.CACHE.WRITE", late).get(WAIT_S)
    assert written["error"]["code"] == "ERASED"


def test_a_log_outlives_its_context_and_is_found(running: Deployment, client: Ditto, word: str) -> None:
    """The operation log of a turn whose context has expired is erased by --session, and by --tenant."""
    for by in ("session", "tenant"):
        tenant = f"t{uuid4().hex}"
        scope = {"sessionId": f"{tenant}:s", "turnId": "1"}
        client.context.load(scope=scope, sources=[{"id": "a", "content": word}]).get(WAIT_S)
        with redis.Redis.from_url(running.server.redis_url(CONTEXT_DB)) as contexts:
            parsed = Scope.parse(scope)
            contexts.delete(state_key(parsed))
            counts = erase(running, f"--{by}", f"{tenant}:s" if by == "session" else tenant)
            assert counts["context operations"] == (1, 0)
            assert contexts.hkeys(operations_key(parsed)) == [b"epoch"]
            assert contexts.pttl(f"ditto:context:erased:{owner_key('session', 'none')}") == -2


def test_a_waiting_call_of_an_erased_session_does_nothing(
    running: Deployment, client: Ditto, word: str
) -> None:
    """A call that was sent before the erasure ends as ERASED at once, and leaves no context when it runs."""
    with deployment() as idle, Ditto(idle.settings) as sender:
        pending = sender.context.load(scope={"sessionId": "a:s"}, sources=[{"id": "a", "content": word}])
        counts = erase(idle, "--tenant", "a")
        assert counts["contexts"] == (0, 0)
        with pytest.raises(ContextError, match="ERASED"):
            pending.get(WAIT_S)
        with idle.worker(), redis.Redis.from_url(idle.server.redis_url(BROKER_DB)) as broker:
            eventually(lambda: not broker.keys("ditto.ctx.*[0-9]*"), WAIT_S)
        with redis.Redis.from_url(idle.server.redis_url(CONTEXT_DB)) as contexts:
            assert not contexts.exists(state_key(Scope(session_id="a:s")))


def test_rows_of_batch_runs_are_erased(running: Deployment, client: Ditto) -> None:
    """Rows that name a session's items go with it, also when its context expired long ago; others' stay."""
    tenant = f"t{uuid4().hex}"
    theirs, others = Scope(session_id=f"{tenant}:s"), Scope(session_id=f"{tenant}x:s")
    with redis.Redis.from_url(running.server.redis_url(BROKER_DB)) as broker:
        rows = BatchRows(broker, deployment="default", run=tenant)
        rows.own([theirs, others])
        made = [
            Row(scope=scope_key(scope), status="compressed", removed_ids=("item",))
            for scope in (theirs, others)
        ]
        rows.put(made, told="t")
        assert erase(running, "--tenant", tenant)["batch rows"] == (1, 0)
        assert [row.scope for row in rows.final()] == [scope_key(others)]


def test_dead_letters_are_erased(word: str) -> None:
    """A dead letter with a session's call goes with it, also one that names others, too; another's stays."""
    with (
        deployment() as idle,
        Ditto(idle.settings) as sender,
        redis.Redis.from_url(idle.server.redis_url(BROKER_DB)) as broker,
    ):
        for session in ("a:s", "b:s"):
            sender.context.load(scope={"sessionId": session}, sources=[{"id": "a", "content": word}])
            _bury(broker)
        with closing(create_app(idle.settings)) as app:
            app.send_task("BATCH.COMPRESS", kwargs={"run": "r", "scopes": _of_one_shard("b:", "a:")})
        _bury(broker)
        broker.delete(*broker.keys("ditto:default:of:*"))  # as after their time
        assert erase(idle, "--tenant", "a")["dead letters"] == (2, 0)
        left = [raw for key in broker.keys("*:dead") for raw in broker.lrange(key, 0, -1)]
        assert [read_letter("", raw).scope_hash for raw in left] == [scope_key(Scope(session_id="b:s"))]


def _bury(broker: "redis.Redis") -> None:
    """Make the one message that waits in a shard a dead letter."""
    [queue] = broker.keys("ditto.ctx.*[0-9]")
    raw = broker.rpop(queue)
    envelope = open_envelope(raw, queue.decode())
    broker.lpush(f"{queue.decode()}:dead", letter_entry(ReadingChannel().read(envelope), raw, 3))


def _of_one_shard(*prefixes: str) -> list[dict[str, str]]:
    """A scope of each prefix, all in the first shard of 64."""
    found = []
    for prefix in prefixes:
        scopes = ({"sessionId": f"{prefix}{number}"} for number in count())
        found.append(next(scope for scope in scopes if shard_of(scope_key(scope), 64) == 0))
    return found
