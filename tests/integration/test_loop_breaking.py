"""What a careless or unlucky user does to loops: erasure, large states, late ends, odd functions."""

import time
from uuid import uuid4

import pytest
import redis
from click.testing import CliRunner
from support import graph_fixtures as fixtures
from support.flows import FlowDeployment
from support.graphs import FUNCTIONS, constant, load
from support.graphs_extension import RAN
from support.polling import eventually

from ditto_tasks import Ditto
from ditto_tasks.cli import celery_group
from ditto_tasks.errors import Cancelled, DittoError, PipelineError
from ditto_tasks.keys import Keys
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.pipelines.loops import Loop
from ditto_tasks.tenants import owner_key

WAIT_S = 60.0
running, broker, client, key = fixtures.running, fixtures.broker, fixtures.client, fixtures.key
LONG_MS = 3 * 86_400_000  # longer than what a run has is noted anyway
KEYS = Keys("default")


def waiting() -> Loop:
    return Loop("waits", {"only": Graph("only", [load("slow", binding="test.wait")])}, **FUNCTIONS)


def quick() -> Loop:
    return Loop("quick", {"only": Graph("only", [constant("a")])}, **FUNCTIONS)


def test_an_erased_session_leaves_nothing_of_its_loops(
    running: FlowDeployment, client: Ditto, broker: redis.Redis, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Erased in the middle of an iteration: record, state and outputs are gone and stay so."""
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    session = f"acme:{uuid4()}"
    run = client.run(waiting(), {"key": key, "wanted": 3}, scope={"sessionId": session})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    erased = CliRunner().invoke(celery_group, ["erase", "--session", session])
    assert erased.exit_code == 0, erased.output
    broker.set(f"test:go:{key}", 1, ex=600)
    client.run(quick(), {"wanted": 2}).get(WAIT_S)  # the worker goes on
    kept = (":erased:", ":cancel:", ":of:root:")  # what refuses late work, and ids of tasks
    assert [name for name in broker.scan_iter(f"*{run.id}*") if not any(part in name for part in kept)] == []
    assert client.app.run_records.load(run.id) is None


def test_a_state_of_megabytes_goes_round(client: Ditto) -> None:
    """It is kept or refused by a typed error, and the run ends."""
    run = client.run(quick(), {"wanted": 2, "large": "x" * 3_000_000})
    try:
        state = run.get(WAIT_S)
    except DittoError as refused:
        assert refused.code == "RESULT_TOO_LARGE"  # noqa: PT017 -- either is fine
        return
    assert len(state["large"]) == 3_000_000


def test_a_loop_whose_iteration_ended_after_a_cancel_goes_on(
    client: Ditto, broker: redis.Redis, key: str
) -> None:
    """The iteration's last node settled when the loop had ended: resumed, that is not repeated."""
    run = client.run(waiting(), {"key": key, "wanted": 1})
    eventually(lambda: broker.exists(RAN + key), WAIT_S)
    loop = client.app.loops.records.head(run.id)
    assert loop is not None
    client.app.loops.fail(loop, Cancelled())
    broker.set(f"test:go:{key}", 1, ex=600)
    eventually(lambda: client.app.run_records.load(run.id).nodes[0].state != "running", WAIT_S)
    assert client.resume_loop(run.id).get(WAIT_S)["rounds"] == 1
    assert broker.llen(RAN + key) == 1


@pytest.mark.parametrize("times", [1, 5])
def test_many_loops_at_once_end(client: Ditto, times: int) -> None:
    """Thirty loops side by side go round as often as each asked."""
    runs = [client.run(quick(), {"wanted": 1 + at % 4}) for at in range(6 * times)]
    assert [run.get(WAIT_S)["rounds"] for run in runs] == [1 + at % 4 for at in range(6 * times)]


def test_a_resumed_loop_keeps_its_owner(client: Ditto, broker: redis.Redis) -> None:
    """Its tenant, its iteration's, and by its session's list both, are known as long as the records."""
    bad = Loop("bad", {"only": Graph("only", [load("bad", binding="test.fail")])}, **FUNCTIONS)
    session = f"acme:{uuid4()}"
    run = client.run(bad, {"wanted": 1}, scope={"sessionId": session}, timeout_ms=1_000)
    with pytest.raises(PipelineError):
        run.get(WAIT_S)
    client.resume_loop(run.id, timeout_ms=LONG_MS)
    record_ms = broker.pttl(f"ditto:default:loop:{run.id}")
    assert record_ms > LONG_MS
    ends_ms = dict(broker.zrange(owned(session), 0, -1, withscores=True))
    now_ms = time.time() * 1000
    for each in (run.id, f"{run.id}-i0"):
        assert broker.pttl(f"ditto:default:tenant:{each}") >= record_ms - 5_000
        assert ends_ms[f"call:{each}"] - now_ms >= record_ms - 5_000


def test_a_resumed_graph_keeps_its_owner(client: Ditto, broker: redis.Redis) -> None:
    """Its tenant, and by its session's list the run, are known as long as the record."""
    bad = Graph("bad", [load("bad", binding="test.fail")])
    session = f"acme:{uuid4()}"
    run = client.run(bad, {}, scope={"sessionId": session}, timeout_ms=1_000)
    with pytest.raises(PipelineError):
        run.get(WAIT_S)
    client.resume(run.id, timeout_ms=LONG_MS)
    record_ms = broker.pttl(f"ditto:default:graph:{run.id}")
    assert record_ms > LONG_MS
    assert broker.pttl(f"ditto:default:tenant:{run.id}") >= record_ms - 5_000
    assert broker.zscore(owned(session), f"call:{run.id}") - time.time() * 1000 >= record_ms - 5_000


def owned(session: str) -> str:
    return KEYS.owned(owner_key("session", session))


@pytest.mark.parametrize(
    "more",
    [
        {"graphs": {}},
        {"graphs": {"a": Graph("a", [constant("a")]), "b": Graph("b", [constant("b")])}},
        {"bind": "nobody's"},
        {"max_iterations": 0},
        {"max_iterations": True},
        {"graphs": {"a": {"name": "a", "nodes": []}}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_loop_that_cannot_run_cannot_be_made(more: dict[str, object]) -> None:
    """The error is typed and names a path."""
    fields = {"graphs": {"only": Graph("only", [constant("a")])}, **FUNCTIONS, **more}
    with pytest.raises(PipelineError) as caught:
        Loop("bad", **fields)
    assert caught.value.code in ("INVALID_INPUT", "UNKNOWN_BINDING")
    assert str(caught.value.details["path"]).startswith("/")
