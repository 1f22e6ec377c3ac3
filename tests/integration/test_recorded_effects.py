"""What was done before is answered even to a cancelled or late call; what is new is then not begun."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from support.flows import FlowDeployment, flow_deployment, says
from support.provider_server import Reply
from support.workers import RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.errors import Cancelled
from ditto_tasks.interaction.ledger import LEASE_MS
from ditto_tasks.nodes import NODES

ASKED = {"messages": [{"role": "user", "content": "q"}]}
QUOTED = {**ASKED, "model": {"provider": "extractive", "model": "extractive"}}
CANDIDATES = [{"id": key, "result": {"role": "assistant", "content": key}} for key in ("1", "2")]
CALL = {"id": "c", "name": "note", "arguments": {"key": "KEY"}}
ASSESSED = says(json.dumps({"assessment": {"summary": "fine"}}))
SELECTED = says(json.dumps({"selectedIds": ["2"]}))


@dataclass(frozen=True)
class Case:
    """A node's input, what the model says to it, and how often it is asked."""

    wire: dict[str, object]
    reply: Reply | None = None
    samples: int = 0


COT = {"name": "cot"}
CASES = {
    "INTERACTION.ACT.TOOL": Case({"call": CALL}),
    "INTERACTION.ACT.MCP": Case(
        {"operation": "invoke", "server": "files", "call": {"id": "c", "name": "t0", "arguments": {"k": 1}}}
    ),
    "INTERACTION.OUTPUT": Case({"deliveryId": "d", "message": {"role": "assistant", "content": "hi"}}),
    "INFER.REASONING.SAMPLE": Case(ASKED, says("once"), 1),
    "INFER.REASONING.TRAJECTORY": Case({**ASKED, "strategy": COT}, says("thought"), 2),
    "INFER.REASONING.REFLECT": Case({"target": {"result": "x"}, "mode": "critique"}, ASSESSED, 1),
    "INFER.REASONING.DELIBERATE": Case({"candidates": CANDIDATES}, SELECTED, 1),
    "MEMORY.WRITE": Case({"memories": [{"content": "one"}]}),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowDeployment]:
    folder: Path = tmp_path_factory.mktemp("memory")
    with flow_deployment() as deployed:
        env = {**deployed.variables, "DITTO_WORKER_MEMORY_URL": f"sqlite:///{folder / 'memory.db'}"}
        with WorkerProcess(deployed.server, env=env):
            yield deployed


@pytest.fixture(scope="module")
def app(running: FlowDeployment) -> Iterator[DittoCelery]:
    opened = client_app(running.server)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def broker(running: FlowDeployment) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(running.server.redis_url(0)) as client:
        yield client


@pytest.fixture
def key() -> str:
    return uuid4().hex


def ask(
    app: DittoCelery,
    node: str,
    wire: dict[str, object],
    operation: str,
    *,
    cancelled: bool = False,
    **options: int,
) -> dict[str, object]:
    """One delivery under a task id of its own: what an earlier one stored is not what this one gives."""
    kwargs, task_id = {**wire, "ditto": {"operationId": operation, **options}}, f"{operation}.{uuid4().hex}"
    if cancelled:
        app.coordination.cancel(task_id)
    result = app.send_task(node, kwargs=kwargs, task_id=task_id).get(timeout=RESULT_TIMEOUT_S)
    result.pop("executionId", None)
    return result


def stopped(
    app: DittoCelery, node: str, wire: dict[str, object], operation: str, **options: int
) -> tuple[object, str]:
    """Status and code of a call that was stopped before it began; INTERACTION raises it."""
    try:
        result = ask(app, node, wire, operation, **options)
    except Cancelled as error:
        return ("timeout" if error.code == "TIMEOUT" else "cancelled"), error.code
    return result["status"], result["error"]["code"]  # type: ignore[index]  # an object


def with_key(wire: dict[str, object], key: str) -> dict[str, object]:
    return json.loads(json.dumps(wire).replace("KEY", key))


def scripted(running: FlowDeployment, case: Case) -> None:
    running.provider.requests.clear()
    if case.reply is not None:
        running.provider.then(case.reply)


def test_the_nodes_with_records_are_these() -> None:
    """Each node that is marked as recorded is in the cases below."""
    assert {row.name for row in NODES.values() if row.recorded} == set(CASES)


@pytest.mark.parametrize("node", CASES)
def test_a_settled_call_is_answered_though_it_is_stopped(
    running: FlowDeployment, app: DittoCelery, broker: "redis.Redis", key: str, node: str
) -> None:
    """Delivered again after a cancel, or after its deadline, it gives its recorded result, no more."""
    case = CASES[node]
    scripted(running, case)
    wire = with_key(case.wire, key)
    first = ask(app, node, wire, key)
    assert ask(app, node, wire, key, cancelled=True) == first
    assert ask(app, node, wire, key, deadlineMs=1) == first
    assert len(running.provider.requests) == case.samples
    assert int(broker.get(f"test:{key}") or 0) == (1 if node.endswith("TOOL") else 0)


@pytest.mark.parametrize("node", CASES)
def test_a_stopped_call_begins_nothing_and_blocks_nobody(
    running: FlowDeployment, app: DittoCelery, broker: "redis.Redis", key: str, node: str
) -> None:
    """Cancelled or late before it began, it says so and does nothing; its operation is free at once."""
    case = CASES[node]
    scripted(running, case)
    wire = with_key(case.wire, key)
    assert stopped(app, node, wire, key, cancelled=True) == ("cancelled", "CANCELLED")
    assert stopped(app, node, wire, key, deadlineMs=1) == ("timeout", "TIMEOUT")
    assert (len(running.provider.requests), broker.get(f"test:{key}")) == (0, None)
    begun_s = time.monotonic()
    assert "error" not in ask(app, node, wire, key)
    if not node.endswith("MCP"):  # a server is started for each call
        assert time.monotonic() - begun_s < LEASE_MS / 1000 / 2


def test_what_is_not_recorded_is_stopped_too(running: FlowDeployment, app: DittoCelery, key: str) -> None:
    """A quoting sample, a discovery, an observation and a cached value are not begun either."""
    result = {"callId": "c", "source": "s", "status": "success", "content": "x"}
    for node, wire in (
        ("INFER.REASONING.SAMPLE", QUOTED),
        ("INTERACTION.ACT.MCP", {"operation": "discover"}),
        ("INTERACTION.OBSERVE", {"result": result}),
        ("INFER.CACHE.LOOKUP", {"key": {"scope": "s", "key": "k"}}),
        ("MEMORY.QUERY", {}),
    ):
        assert stopped(app, node, wire, key, cancelled=True) == ("cancelled", "CANCELLED"), node
        assert stopped(app, node, wire, key, deadlineMs=1) == ("timeout", "TIMEOUT"), node
