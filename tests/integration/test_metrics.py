"""Metrics and logs of a real worker: complete, behind a credential, and free of content."""

import json
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from support.batches import BUDGET, LARGE, seed
from support.keys import OPERATIONS
from support.polling import eventually
from support.workers import Deployment, environment

from ditto_tasks.cli import celery_group
from ditto_tasks.cli.metrics import metrics_server
from ditto_tasks.errors import DittoError
from ditto_tasks.keys import Keys
from ditto_tasks.metrics.exposition import exposition

CANARY = "canary-3d90"
CREDENTIAL = "prometheus:for-tests-only"


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment(env={"DITTO_LOG_FORMAT": "json"}, log_level="INFO") as running:
        yield running


def scraped(deployment: Deployment) -> dict[str, float]:
    """Samples of a scrape, by name and labels as they are printed."""
    text = exposition(deployment.broker, Keys("default"), 64).decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def exercise(deployment: Deployment) -> str:
    """A call of each kind that is counted, all full of canaries; the session that it was about."""
    session = f"s:{CANARY}"
    seed(deployment.state, {session: LARGE}, text=f"{CANARY} text")
    scope = {"sessionId": session}
    deployment.call("CONTEXT.COMPRESS", scope=scope, maxItems=BUDGET)
    deployment.call("CONTEXT.SELECT", scope=scope, purpose="infer", query=CANARY, limit=3)
    with pytest.raises(DittoError):
        deployment.call("CONTEXT.UPDATE", scope=scope, removeIds=[CANARY], expectedVersion="old")
    update = {"scope": scope, "add": [{"id": CANARY, "content": CANARY}]}
    deployment.call("CONTEXT.UPDATE", options={"operationId": CANARY}, **update)
    deployment.call("CONTEXT.UPDATE", options={"operationId": CANARY}, **update)
    deployment.call("INFER.REASONING.SAMPLE", messages=[{"role": "user", "content": CANARY}])
    return session


def test_a_scrape_tells_what_was_done_and_no_content(deployment: Deployment) -> None:
    """Every kind of call is counted within seconds, and no canary is in metrics, logs or their key."""
    exercise(deployment)
    eventually(lambda: 'ditto_infer_calls_total{model="extractive"}' in scraped(deployment))
    shown = scraped(deployment)
    assert shown['ditto_compress_items_total{when="before"}'] == LARGE
    assert shown['ditto_compress_items_total{when="after"}'] == BUDGET
    assert shown["ditto_selected_items_total"] == 3
    assert shown['ditto_state_conflicts_total{node="CONTEXT.UPDATE"}'] == 1
    assert shown['ditto_replays_total{node="CONTEXT.UPDATE"}'] == 1
    assert shown["ditto_workers"] == 1
    assert sum(value for name, value in shown.items() if name.startswith("ditto_shard_owned")) == 64
    assert sum(value for name, value in shown.items() if "owner_changes" in name) == 64
    assert CANARY not in json.dumps(shown) + deployment.worker.logs()


def test_logs_are_json_with_scope_task_and_shard(deployment: Deployment) -> None:
    """A line about a task is one JSON object with the task's id, its scope's hash and its shard."""
    sent = deployment.send("CONTEXT.LOAD", scope={"sessionId": "log:1"}, sources=[])
    sent.get(timeout=20)

    def succeeded() -> dict[str, str] | None:
        lines = [line for line in deployment.worker.logs().splitlines() if line.startswith("{")]
        about = (json.loads(line) for line in lines if sent.id in line and line.endswith("}"))
        return next((line for line in about if "succeeded" in line["message"]), None)

    done = eventually(succeeded)  # the result is stored before the line is written
    assert done is not None
    assert (done["taskId"], done["task"], done["level"]) == (sent.id, "CONTEXT.LOAD", "INFO")
    assert done["scope"].startswith("scope:")
    assert 0 <= int(done["shard"]) < 64


def test_every_metric_is_documented(deployment: Deployment) -> None:
    """docs/operations.md has a row for each metric, and for no other."""
    text = exposition(deployment.broker, Keys("default"), 64).decode()
    names = {line.split(" ")[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    rows = OPERATIONS.read_text("utf-8").split("## Metrics", 1)[1].split("\n## ", 1)[0].splitlines()
    assert {row.split("`")[1] for row in rows if row.startswith("| `")} == names


def asked(port: int, path: str, credential: str | None) -> tuple[int, bytes]:
    """Status and body of a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if credential is not None:
        request.add_header("Authorization", "Basic " + b64encode(credential.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 -- of our own server
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_only_the_credential_opens_metrics() -> None:
    """Without it, or with another, the answer is 401 and empty; beside /metrics there is /healthcheck."""
    server = metrics_server(lambda: b"ditto_up 1\n", CREDENTIAL, alive=lambda: b"OK")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        port = server.server_port
        assert asked(port, "/metrics", None) == (401, b"")
        assert asked(port, "/metrics", "prometheus:wrong") == (401, b"")
        assert asked(port, "/metrics", CREDENTIAL) == (200, b"ditto_up 1\n")
        assert asked(port, "/", CREDENTIAL)[0] == 404
        assert asked(port, "/healthcheck", None) == (200, b"OK")
        assert server.server_address[0] == "127.0.0.1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_the_open_health_check_tells_of_a_broker_that_is_away() -> None:
    """503 with the name of the error and nothing of its text, which may hold an address."""

    def alive() -> bytes:
        raise ConnectionError("redis://:secret@host")

    with metrics_server(bytes, CREDENTIAL, alive=alive) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        assert asked(server.server_port, "/healthcheck", None) == (503, b"ConnectionError\n")
        server.shutdown()
        thread.join(10)


def test_metrics_are_not_served_without_a_credential(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ditto metrics` ends with the variable's name when it is not set; --once needs none."""
    for name, value in environment(deployment.server).items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(celery_group, ["metrics", "--port", "0"])
    assert (result.exit_code, "DITTO_METRICS_BASIC_AUTH" in result.output) == (1, True)
    once = CliRunner().invoke(celery_group, ["metrics", "--once"])
    assert (once.exit_code, "ditto_workers 1.0" in once.output) == (0, True)
