"""`ditto erase` removes all of one session or tenant and nothing of others, and late work is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result
from support.memories import code, contents, output, remember

from ditto_tasks.belongings import CALL
from ditto_tasks.cli import celery_group
from ditto_tasks.context import Context, ContextNodes, ContextServices
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError
from ditto_tasks.keys import Keys
from ditto_tasks.memory import MemoryNodes, ScopedMemory
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.models import Scope
from ditto_tasks.state.base import Operation
from ditto_tasks.state.encoding import operations_key, state_key
from ditto_tasks.state.redis import RedisContextStore, open_state_client
from ditto_tasks.tenants import owner_key

TENANTS = ["a", "ab", "A", "a_", "%"]


@pytest.fixture
def env(server: EmbeddedServer, tmp_path: Path) -> dict[str, str]:
    """The environment of the command."""
    return {
        "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(2),
        "DITTO_WORKER_MEMORY_URL": f"sqlite:///{tmp_path / 'memory.db'}",
    }


@pytest.fixture
def contexts(env: dict[str, str]) -> Iterator[RedisContextStore]:
    """The state store, with a context and a logged operation for two sessions of each tenant."""
    client = open_state_client(env["DITTO_WORKER_CONTEXT_REDIS_URL"])
    store = RedisContextStore(client)
    for tenant in TENANTS:
        for scope in (Scope(session_id=f"{tenant}:s"), Scope(session_id=f"{tenant}:s", turn_id="1")):
            store.commit(scope, Operation("first", "h"), expected_version=None, next=Context(items=[]))
    yield store
    client.close()


@pytest.fixture
def memory(env: dict[str, str]) -> Iterator[SqlMemoryStore]:
    """The memory store, with records in the namespaces and under the keys of each tenant."""
    store = SqlMemoryStore(env["DITTO_WORKER_MEMORY_URL"])
    for tenant in TENANTS:
        for namespace in (tenant, f"{tenant}:s"):
            nodes = MemoryNodes(ScopedMemory(store, namespace))
            output(nodes.write({"memories": [{"content": tenant, "metadata": {"x": 1}}]}, operation_id="op"))
        remember(MemoryNodes(store), tenant, key=f"{tenant}:s/1")
    yield store
    store.close()


def run(env: dict[str, str], *arguments: str) -> Result:
    """Run `ditto erase` with arguments."""
    return CliRunner().invoke(celery_group, ["erase", *arguments], env=env)


def numbers(shown: Result) -> dict[str, tuple[int, int]]:
    """kind -> (before, after) of the printed proof."""
    assert shown.exit_code == 0, shown.output
    rows = [line.rsplit(maxsplit=3) for line in shown.stdout.splitlines()]
    return {kind: (int(before), int(after)) for kind, before, _, after in rows}


def test_a_tenant_is_erased_and_nobody_else(
    env: dict[str, str],
    contexts: RedisContextStore,
    memory: SqlMemoryStore,
    redis_client: "redis.Redis",
) -> None:
    """After --tenant a nothing of a is in Redis or in the database; look-alikes keep all of theirs."""
    assert numbers(run(env, "--tenant", "a")) == {
        "contexts": (2, 0),
        "context operations": (2, 0),
        "index entries": (2, 0),
        "memories": (3, 0),
        "metadata entries": (2, 0),
        "memory operations": (2, 0),
    }
    assert not redis_client.exists(state_key(Scope(session_id="a:s")))
    for tenant in TENANTS[1:]:
        assert contexts.get(Scope(session_id=f"{tenant}:s")) is not None
        assert contents(MemoryNodes(ScopedMemory(memory, tenant)).query({})) == [tenant]
        assert contents(MemoryNodes(memory).get({"keys": [f"{tenant}:s/1"]})) == [tenant]
    assert numbers(run(env, "--tenant", "a"))["memories"] == (0, 0)


def test_a_session_is_erased_and_no_other(
    env: dict[str, str], contexts: RedisContextStore, memory: SqlMemoryStore
) -> None:
    """After --session a:s its contexts and memories are gone; those of its tenant and of others are there."""
    shown = numbers(run(env, "--session", "a:s"))
    assert (shown["contexts"], shown["memories"]) == ((2, 0), (2, 0))
    assert contexts.get(Scope(session_id="ab:s")) is not None
    assert contents(MemoryNodes(ScopedMemory(memory, "a")).query({})) == ["a"]
    assert contents(MemoryNodes(ScopedMemory(memory, "ab:s")).query({})) == ["ab"]


def test_late_work_is_refused(
    env: dict[str, str],
    contexts: RedisContextStore,
    memory: SqlMemoryStore,
    redis_client: "redis.Redis",
) -> None:
    """A scoped task and a WRITE that come after the erasure are refused; the tombstone has a TTL."""
    run(env, "--tenant", "a")
    scope = Scope(session_id="a:s")
    for operation in (Operation("first", "h"), Operation("late", "h", epoch=1_800_000_000_000)):
        with pytest.raises(ContextError, match="ERASED"):
            contexts.commit(scope, operation, expected_version=None, next=Context(items=[]))
    assert redis_client.pttl(operations_key(scope)) > 0
    for unknown in (Scope(session_id="a:new"), Scope(session_id="a:s", turn_id="new")):
        with pytest.raises(ContextError, match="ERASED"):
            contexts.commit(unknown, Operation("late", "h"), expected_version=None, next=Context(items=[]))
    drafts = {"memories": [{"content": "late"}]}
    for namespace in ("a", "a:s", "a:new"):
        late = MemoryNodes(ScopedMemory(memory, namespace)).write(drafts, operation_id="op")
        assert code(late) == "ERASED"
    keyed = {"memories": [{"content": "late", "key": "a:s/2"}]}
    assert code(MemoryNodes(memory).write(keyed)) == "ERASED"
    assert output(MemoryNodes(ScopedMemory(memory, "ab")).write(drafts))


def test_reads_of_an_erased_session_find_nothing(env: dict[str, str], contexts: RedisContextStore) -> None:
    """LOAD of an erased scope is CONTEXT_NOT_FOUND."""
    run(env, "--session", "a:s")
    nodes = ContextNodes(services=ContextServices(state_store=contexts))
    with pytest.raises(ContextError, match="CONTEXT_NOT_FOUND"):
        nodes.load(scope={"sessionId": "a:s"})


def test_results_are_erased_where_tasks_store_them_without_a_variable(
    env: dict[str, str], server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DITTO_RESULT_BACKEND_URL that is the default's database, not the broker's."""
    monkeypatch.setattr("ditto_tasks.cli.erase.LOCAL_RESULTS", server.redis_url(1))
    with (
        redis.Redis.from_url(server.redis_url(0)) as broker,
        redis.Redis.from_url(server.redis_url(1)) as results,
    ):
        owned = Keys("default").owned(owner_key("session", "a:s"))
        broker.zadd(owned, {f"{CALL}t": 1})
        broker.expire(owned, 60)
        results.set("celery-task-meta-t", "content", ex=60)
        shown = run({**env, "DITTO_BROKER_URL": server.url(0)}, "--session", "a:s")
        assert numbers(shown)["results"] == (1, 0)
        assert b"ERASED" in results.get("celery-task-meta-t")


@pytest.mark.parametrize("arguments", [[], ["--session", ""], ["--session", "s", "--tenant", "t"]])
def test_what_to_erase_must_be_said(env: dict[str, str], arguments: list[str]) -> None:
    """Neither, both, or an empty name is a usage error, and nothing is erased."""
    assert run(env, *arguments).exit_code == 2
