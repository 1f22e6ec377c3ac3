"""Every key that a deployment leaves in its databases has a row in docs/operations.md."""

from collections.abc import Iterator

import pytest
import redis
from click.testing import CliRunner
from support.deployments import Deployment, deployment
from support.keys import documented_keys
from support.workers import RESULT_TIMEOUT_S

from ditto_tasks import Ditto, Scope
from ditto_tasks.cli import celery_group
from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines import Graph, GraphNode, Loop, graph_function

SESSION = Scope(session_id="acme:1")
DATABASES = {"broker": 0, "results": 1, "contexts": 2}
KINDS = {"zset": "sorted set"}  # as the table says it


graph_function("keys.state")(lambda state: state)
graph_function("keys.update")(lambda state, _outputs: state)
graph_function("keys.done")(lambda _state: True)


@pytest.fixture(scope="module")
def used() -> Iterator[Deployment]:
    """A deployment that was called, whose sessions a run went over, and of which one was erased."""
    with deployment() as made, made.worker() as _worker, Ditto(made.settings) as ditto:
        use(ditto)
        for command in (
            ["compress", "--match", "", "--max-items", "1", "--report", "-"],
            ["erase", "--session", "acme:2"],
        ):
            CliRunner().invoke(celery_group, command, env=dict(made.variables), catch_exceptions=False)
        yield made


def use(ditto: Ditto) -> None:
    """Call what leaves keys."""
    item = {"id": "a", "content": "hello"}
    message = {"role": "assistant", "content": "hello"}
    for session in (SESSION, Scope(session_id="acme:2")):
        added = ditto.context.update(
            scope=session, add=[item, {**item, "id": "b"}], ditto={"onMissing": "create"}
        )
        added.get(RESULT_TIMEOUT_S)
    ditto.answer(SESSION, "hello?", remember=True).get(RESULT_TIMEOUT_S)
    key = {"namespace": "n", "scope": SESSION, "key": "k"}
    ditto.infer.cache_write(key=key, value=1, ttl_ms=60_000, tags=["t"]).get(RESULT_TIMEOUT_S)
    ditto.interaction.output(delivery_id="d", message=message, ditto={"tenant": "acme"}).get(RESULT_TIMEOUT_S)
    ditto.context.load(scope=SESSION).cancel()
    graph = Graph("g", [GraphNode("a", "CONTEXT.LOAD", scope="run")])
    ditto.run(graph, scope=SESSION).get(RESULT_TIMEOUT_S)
    once = Loop("l", {"g": graph}, bind="keys.state", update="keys.update", done="keys.done")
    run = ditto.run(once, scope=SESSION)
    with pytest.raises(PipelineError, match="UNKNOWN_BINDING"):  # the worker lacks them
        run.get(RESULT_TIMEOUT_S)
    ditto.resume_loop(run.id)


@pytest.mark.parametrize("database", DATABASES)
def test_every_key_is_in_the_table(used: Deployment, database: str) -> None:
    """Whatever stands in a database after all this is a key of one of its rows, and of that type."""
    rows = [row for row in documented_keys() if row.database == database]
    with redis.Redis.from_url(used.server.redis_url(DATABASES[database]), decode_responses=True) as client:
        kinds = {name: KINDS.get(kind := client.type(name), kind) for name in client.scan_iter(count=1000)}
    known = [
        name for name, kind in kinds.items() if any(row.matches(name) and kind in row.kind for row in rows)
    ]
    assert known
    assert sorted(kinds.keys() - set(known)) == []


def test_most_rows_are_met(used: Deployment) -> None:
    """The calls leave keys of the rows that matter: the table is held to what is there, not to nothing."""
    names: list[str] = []
    for number in DATABASES.values():
        with redis.Redis.from_url(used.server.redis_url(number), decode_responses=True) as client:
            names += client.scan_iter(count=1000)
    met = [row.name for row in documented_keys() if any(row.matches(name) for name in names)]
    assert len(met) >= 24, met
