"""Whether a task should go on: what is asked of the broker, over a pooled client and over a worker's line."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import redis
from support.workers import BROKER_DB, client_app

from ditto_tasks.belongings import TASK
from ditto_tasks.coordination import Coordination
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import Cancelled
from ditto_tasks.keys import Keys
from ditto_tasks.lines import Lines

LIST = Keys("default").caused("root")


@pytest.fixture
def broker(server: EmbeddedServer) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as client:
        yield client


@pytest.fixture(params=["client", "line"])
def coordination(request, server: EmbeddedServer, broker: "redis.Redis") -> Coordination:
    made = client_app(server).coordination
    return made if request.param == "client" else replace(made, line=partial(Lines(broker).ask, again=True))


def used(broker: "redis.Redis") -> set[str]:
    """The scripting commands that the server has had."""
    return {name.removeprefix("cmdstat_") for name in broker.info("commandstats")} & {"eval", "evalsha"}


def test_a_task_is_noted_by_a_digest(coordination: Coordination, broker: "redis.Redis") -> None:
    """The script's text goes over the wire once; a task that is asked about is on its root's list."""
    coordination.interruption("t1", "root", None)
    broker.config_resetstat()
    assert coordination.interruption("t2", "root", None) is None
    assert used(broker) == {"evalsha"}
    assert set(broker.zrange(LIST, 0, -1)) == {f"{TASK}t1".encode(), f"{TASK}t2".encode()}


def test_a_server_that_lost_its_scripts_still_answers(
    coordination: Coordination, broker: "redis.Redis"
) -> None:
    """After SCRIPT FLUSH the task is noted all the same, and each answer is told from the others."""
    coordination.interruption("t1", "root", None)
    now_ms = broker.time()[0] * 1000
    for deadline_ms, code in ((now_ms + 60_000, None), (now_ms - 60_000, "TIMEOUT")):
        broker.script_flush()
        broker.delete(LIST)
        found = coordination.interruption("t2", "root", deadline_ms)
        assert (found.code if isinstance(found, Cancelled) else None) == code
        assert broker.zrange(LIST, 0, -1) == [f"{TASK}t2".encode()]


def test_what_the_server_refuses_is_raised(coordination: Coordination, broker: "redis.Redis") -> None:
    """A list that is no list is an error, and not an answer."""
    broker.set(LIST, "no list", px=60_000)
    with pytest.raises(redis.ResponseError):
        coordination.interruption("t1", "root", None)
