"""`ditto sessions` lists, shows, deletes and re-indexes, and shows content only when asked."""

import json

import pytest
import redis
from click.testing import CliRunner, Result
from support.batches import LARGE, SMALL, hash_of, raw_of, seed
from support.workers import environment

from ditto_tasks.cli import celery_group
from ditto_tasks.embedded import EmbeddedServer

CANARY = "canary-90aa"


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, redis_client: "redis.Redis") -> None:
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    seed(redis_client, {"a:1": SMALL, "a:2": LARGE, "ab:1": SMALL}, text=f"{CANARY} text")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(celery_group, ["sessions", *arguments])
    assert result.exit_code == code, result.output
    return result


def named(*arguments: str) -> set[str]:
    lines = run("list", "--json", *arguments).stdout.splitlines()
    return {json.loads(line)["sessionId"] for line in lines}


@pytest.mark.usefixtures("sessions")
def test_list_names_what_has_a_context() -> None:
    """All, those of a prefix, or those of a tenant, whose name ends at its colon."""
    assert named() == {"a:1", "a:2", "ab:1"}
    assert named("--match", "a") == {"a:1", "a:2", "ab:1"}
    assert named("--tenant", "a") == {"a:1", "a:2"}
    assert named("--match", "a*") == named("--match", "[a]:1") == set()
    shown = run("list", "--limit", "1")
    assert "only the first 1" in shown.stderr


@pytest.mark.usefixtures("sessions")
def test_show_draws_sizes_and_hides_content() -> None:
    """Items, tokens, age and time to live are shown; what the items say only with --content."""
    shown = run("show", "a:2").stdout
    assert f"{LARGE} of 256" in shown
    assert "item-59" in shown
    assert "59m" in shown
    assert CANARY not in shown
    assert CANARY in run("show", "a:2", "--content").stdout
    assert "CONTEXT_NOT_FOUND" in run("show", "nobody", code=1).output


@pytest.mark.usefixtures("sessions")
def test_delete_takes_one_or_a_prefix(redis_client: "redis.Redis") -> None:
    """One session by its name, or those of a literal prefix; they leave the index at once."""
    run("delete", "a:1", "--yes")
    assert (raw_of(redis_client, "a:1"), named()) == (None, {"a:2", "ab:1"})
    run("delete", "--match", "a*", "--yes")
    run("delete", "--tenant", "a", "--yes")
    assert named() == {"ab:1"}
    indexes = list(redis_client.scan_iter(match="ditto:context:index:*"))
    assert sum(redis_client.zcard(key) for key in indexes) == 1
    assert "CONTEXT_NOT_FOUND" in run("delete", "a:1", "--yes", code=1).output
    assert run("delete", "--yes", code=2)


@pytest.mark.usefixtures("sessions")
def test_delete_asks_first(redis_client: "redis.Redis") -> None:
    """Without --yes and without an answer nothing is deleted."""
    run("delete", "ab:1", code=1)
    assert raw_of(redis_client, "ab:1") is not None


@pytest.mark.usefixtures("sessions")
def test_reindex_finds_what_the_index_lost(redis_client: "redis.Redis") -> None:
    """The index is rebuilt from the records; one that names no scope is listed by its key."""
    for key in redis_client.scan_iter(match="ditto:context:index:*"):
        redis_client.delete(key)
    redis_client.set("ditto:context:scope:foreign", b'{"version":"1","context":{"items":[]}}', px=60_000)
    assert named() == set()
    shown = run("reindex").stdout
    assert "3 sessions named" in shown
    assert "unnamed: ditto:context:scope:foreign" in shown
    assert named() == {"a:1", "a:2", "ab:1"}
    assert hash_of("a:1").removeprefix("scope:")[:12] in run("list").stdout
