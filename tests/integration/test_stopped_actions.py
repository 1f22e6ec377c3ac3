"""Running actions that are stopped, and messages that go out over a webhook, through a real worker."""

import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis
from support.mcp_server import SCRIPT
from support.odd_tools_extension import NAME
from support.polling import eventually
from support.provider_server import ProviderServer, Reply, as_json, hang
from support.workers import BROKER_DB, RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer

ACT, MCP, OUTPUT = "INTERACTION.ACT.TOOL", "INTERACTION.ACT.MCP", "INTERACTION.OUTPUT"
YAML = """
workers:
  interaction:
    mcp: {{servers: {{hangs: {{command: ["{python}", "{script}", "hangs"]}}}}}}
"""
HANGING = {"id": "c", "name": "odd", "arguments": {"how": "hang"}}
DELIVERY = {"deliveryId": "d", "message": {"role": "assistant", "content": "hi"}}
RUNNING = {
    ACT: ({"call": HANGING}, "cancelled", "timeout"),
    MCP: (
        {"operation": "invoke", "server": "hangs", "call": {**HANGING, "name": "t0"}},
        "cancelled",
        "timeout",
    ),
    OUTPUT: (DELIVERY, "unknown", "unknown"),  # nobody knows whether the receiver took it
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[ProviderServer]:
    with ProviderServer(as_json({})) as running:
        yield running


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="module")
def env(receiver: ProviderServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    config = tmp_path_factory.mktemp("stopped") / "ditto.yaml"
    config.write_text(YAML.format(python=sys.executable, script=SCRIPT))
    return {
        "DITTO_CONFIG": str(config),
        "DITTO_EXTENSIONS": NAME,
        "DITTO_SHARED_SANDBOX_ALLOW_TOOLS": "odd",
        "DITTO_SHARED_SANDBOX_ALLOW_MCP": "hangs",
        "DITTO_WORKER_INTERACTION_WEBHOOK_URL": f"{receiver.url}/hook",
    }


@pytest.fixture(scope="module")
def app(own_server: EmbeddedServer, env: dict[str, str]) -> Iterator[DittoCelery]:
    with WorkerProcess(own_server, queues=["ditto.interaction"], env=env):
        opened = client_app(own_server)
        yield opened
        opened.close()


@pytest.fixture
def webhook(receiver: ProviderServer) -> ProviderServer:
    receiver.requests.clear()
    receiver.client_closed.clear()
    receiver.then(as_json({}))
    return receiver


def send(app: DittoCelery, node: str, wire: dict[str, object], task_id: str | None = None, **options: object):  # type: ignore[no-untyped-def]  # AsyncResult
    return app.send_task(node, kwargs={**wire, "ditto": options}, task_id=task_id)


def is_executing(server: EmbeddedServer) -> bool:
    """Whether an effect was begun and has not ended."""
    with redis.Redis.from_url(server.redis_url(BROKER_DB)) as client:
        states = [client.hget(name, "state") for name in client.scan_iter("ditto:default:effect:*")]
    return b"executing" in states


def ended(result: dict[str, object]) -> tuple[object, object]:
    """Status and code of a result, an invocation or a receipt."""
    found = result.get("result", result)
    return found["status"], found.get("error", {}).get("code")  # type: ignore[index,attr-defined]  # an object


@pytest.mark.parametrize("node", RUNNING)
def test_a_cancel_ends_a_running_action(
    app: DittoCelery, own_server: EmbeddedServer, webhook: ProviderServer, node: str
) -> None:
    """Its caller hears it soon; a later delivery learns the same, and nothing is done once more."""
    webhook.then(hang())
    wire, status, _ = RUNNING[node]
    task_id = uuid4().hex
    running = send(app, node, wire, task_id)
    eventually(lambda: is_executing(own_server) and (node != OUTPUT or webhook.requests), RESULT_TIMEOUT_S)
    app.coordination.cancel(task_id)
    first = running.get(timeout=RESULT_TIMEOUT_S)
    assert ended(first) == (status, "CANCELLED")
    assert send(app, node, wire, operationId=task_id).get(timeout=RESULT_TIMEOUT_S) == first
    if node == OUTPUT:
        assert webhook.client_closed.wait(5)
        assert len(webhook.requests) == 1


@pytest.mark.parametrize("node", RUNNING)
def test_a_deadline_ends_a_running_action(
    app: DittoCelery, own_server: EmbeddedServer, webhook: ProviderServer, node: str
) -> None:
    """By the server's clock, whatever the action's own time."""
    webhook.then(hang())
    with redis.Redis.from_url(own_server.redis_url(BROKER_DB)) as client:
        deadline_ms = int(client.time()[0] + 3) * 1000
    wire, _, status = RUNNING[node]
    late = send(app, node, wire, deadlineMs=deadline_ms).get(timeout=RESULT_TIMEOUT_S)
    assert ended(late) == (status, "TIMEOUT")
    assert node != OUTPUT or webhook.client_closed.wait(5)


def test_a_webhook_is_called_once(app: DittoCelery, webhook: ProviderServer) -> None:
    """It gets the message as JSON under its delivery id; a second delivery gets the recorded receipt."""
    operation = uuid4().hex
    receipts = [
        send(app, OUTPUT, DELIVERY, operationId=operation).get(timeout=RESULT_TIMEOUT_S) for _ in range(2)
    ]
    assert receipts == [{"deliveryId": "d", "status": "accepted"}] * 2
    (request,) = webhook.requests
    assert (request.path, request.headers["idempotency-key"], request.json) == ("/hook", "d", DELIVERY)


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (as_json({}, status=403), "rejected", "WEBHOOK_REJECTED"),
        (as_json({}, status=302, location="http://127.0.0.1:9/"), "rejected", "WEBHOOK_REJECTED"),
        (as_json({}, status=503), "unknown", "WEBHOOK_FAILED"),
        (Reply((b"{",), then="cut"), "unknown", "HTTP_FAILED"),
    ],
)
def test_a_webhook_that_does_not_take_it(
    app: DittoCelery, webhook: ProviderServer, reply: Reply, status: str, code: str
) -> None:
    """A refusal is a rejection, anything else leaves it unknown; neither is tried again."""
    webhook.then(reply)
    assert ended(send(app, OUTPUT, DELIVERY).get(timeout=RESULT_TIMEOUT_S)) == (status, code)
    assert len(webhook.requests) == 1


@pytest.mark.timeout(120)  # two cold starts, and a lease that lapses
def test_a_worker_that_dies_while_its_webhook_answers(
    server: EmbeddedServer, env: dict[str, str], webhook: ProviderServer
) -> None:
    """The next delivery learns that nobody knows, and the webhook is not called again."""
    webhook.then(hang())
    app = client_app(server)
    with WorkerProcess(server, queues=["ditto.interaction"], env=env) as mortal:
        send(app, OUTPUT, DELIVERY, operationId="dies")
        eventually(lambda: webhook.requests, RESULT_TIMEOUT_S)
        mortal.kill()
    with WorkerProcess(server, queues=["ditto.interaction"], env=env, name="w2"):
        receipt = send(app, OUTPUT, DELIVERY, operationId="dies").get(timeout=2 * RESULT_TIMEOUT_S)
    app.close()
    assert ended(receipt) == ("unknown", "OUTCOME_UNKNOWN")
    assert len(webhook.requests) == 1
