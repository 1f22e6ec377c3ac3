"""How results are stored: one script, which leaves a success, tells who waits, and heeds tombstones."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis
from celery import states
from celery.app.task import Context
from support.polling import eventually
from support.workers import RESULT_DB, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ContextError
from ditto_tasks.keys import Keys
from ditto_tasks.result_backend import erased_result
from ditto_tasks.tenants import owner_key

KEYS = Keys("default")
SCOPE = {"scope": {"sessionId": "a:s"}}
TOMBSTONES = [
    KEYS.erased_root("root"),
    KEYS.erased(owner_key("session", "a:s")),
    KEYS.erased(owner_key("tenant", "a")),
]


@pytest.fixture
def app(server: EmbeddedServer) -> Iterator[DittoCelery]:
    made = client_app(server)
    yield made
    made.close()


@pytest.fixture
def results(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.redis_url(RESULT_DB)) as client:
        yield client


def request(task_id: str, **more: Any) -> Context:
    """A worker's request."""
    return Context({"id": task_id, "root_id": "root", "kwargs": SCOPE, **more})


def commands(results: "redis.Redis") -> int:
    """How many commands the server has had from clients."""
    stats = results.info("commandstats")
    return sum(int(each["calls"]) for name, each in stats.items() if name.startswith("cmdstat_eval"))


def test_a_result_costs_one_round_trip(app: DittoCelery, results: "redis.Redis") -> None:
    """After the first use on a server a result is one EVALSHA, with the results' TTL."""
    app.backend.store_result("t0", 1, states.SUCCESS)
    results.config_resetstat()
    app.backend.store_result("t1", {"a": 1}, states.SUCCESS, request=request("t1"))
    used = {name.removeprefix("cmdstat_") for name in results.info("commandstats")}
    assert used & {"evalsha", "eval", "multi"} == {"evalsha"}
    assert commands(results) == 1
    assert app.AsyncResult("t1").result == {"a": 1}
    assert 0 < results.ttl("celery-task-meta-t1") <= app.settings.runtime.results.expires_ms / 1000


def test_a_server_that_lost_its_scripts_is_given_them(app: DittoCelery, results: "redis.Redis") -> None:
    """After SCRIPT FLUSH the next result is stored all the same."""
    app.backend.store_result("t1", 1, states.SUCCESS)
    results.script_flush()
    app.backend.store_result("t2", 2, states.SUCCESS)
    assert app.AsyncResult("t2").result == 2


def test_a_success_stands(app: DittoCelery) -> None:
    """What comes after a success, from a delivery too many, is not stored; a failure is replaced."""
    app.backend.store_result("t1", 1, states.SUCCESS)
    app.backend.store_result("t1", ContextError("X", "late"), states.FAILURE)
    app.backend.store_result("t2", ContextError("X", "first"), states.FAILURE)
    app.backend.store_result("t2", 2, states.SUCCESS)
    assert (app.AsyncResult("t1").result, app.AsyncResult("t2").result) == (1, 2)


@pytest.mark.parametrize("tombstone", TOMBSTONES)
@pytest.mark.parametrize("state", [states.STARTED, states.SUCCESS])
def test_the_erased_get_word_of_it(
    app: DittoCelery, results: "redis.Redis", tombstone: str, state: str
) -> None:
    """Under each tombstone a result is replaced by ERASED, which listeners hear and which has a TTL."""
    results.set(tombstone, "1", px=60_000)
    with closing(results.pubsub()) as heard:
        heard.subscribe("celery-task-meta-t1")
        app.backend.store_result("t1", {"content": "canary"}, state, request=request("t1"))
        messages = [heard.get_message(timeout=5) for _ in range(2)]
    assert results.get("celery-task-meta-t1") == erased_result("t1") == messages[-1]["data"]
    assert results.ttl("celery-task-meta-t1") > 0
    with pytest.raises(ContextError, match="ERASED"):
        app.AsyncResult("t1").get()


def test_others_tombstones_forbid_nothing(app: DittoCelery, results: "redis.Redis") -> None:
    """A result of another session, tenant or canvas is stored."""
    for owner in (owner_key("session", "a:"), owner_key("session", "a"), owner_key("tenant", "a:s")):
        results.set(KEYS.erased(owner), "1", px=60_000)
    results.set(KEYS.erased_root("other"), "1", px=60_000)
    app.backend.store_result("t1", 1, states.SUCCESS, request=request("t1"))
    assert app.AsyncResult("t1").result == 1


def test_a_tenants_call_without_a_scope_is_known_by_its_header(
    app: DittoCelery, results: "redis.Redis"
) -> None:
    """A call whose message names its tenant is that tenant's."""
    results.set(KEYS.erased(owner_key("tenant", "a")), "1", px=60_000)
    app.backend.store_result("t1", 1, states.SUCCESS, request=request("t1", kwargs={}, ditto_tenant="a"))
    assert results.get("celery-task-meta-t1") == erased_result("t1")


def part(app: DittoCelery, task_id: str, **more: Any) -> None:
    """The end of one of two parts of a chord."""
    chord = app.signature("MEMORY.GET", kwargs={"ids": ["x"]}, immutable=True, chord_size=2)
    ended = request(task_id, group="g", group_index=0, chord=chord, kwargs={}, **more)
    app.backend.mark_as_done(task_id, {"content": "canary"}, request=ended)


def test_parts_of_chords_are_noted_for_an_erasure(app: DittoCelery, results: "redis.Redis") -> None:
    """The canvas's list in the results' database names the group, as long as its parts are kept."""
    part(app, "t1")
    assert results.exists("celery-taskset-meta-g.j")
    assert results.zrange(KEYS.caused("root"), 0, -1) == [b"group:g"]
    assert results.ttl(KEYS.caused("root")) > 0


def test_parts_of_the_erased_do_not_stay(app: DittoCelery, results: "redis.Redis") -> None:
    """A part of an erased canvas is not added; one that was just being added is deleted."""
    results.set(KEYS.erased_root("root"), "1", px=60_000)
    part(app, "t1")
    assert not results.keys("celery-taskset*")
    app.backend.on_chord_part_return(
        request("t2", group="g", group_index=0, chord=app.signature("MEMORY.GET", chord_size=2)),
        states.SUCCESS,
        {"content": "canary"},
    )
    eventually(lambda: not results.keys("celery-taskset*"), 5)
