"""What a node of an application raises: a typed error, and its text is nowhere, in plain logs and in JSON."""

import json

import pytest
import redis
from support.leaky_app import CANARY, NAME, NODE, ROWS
from support.workers import RESULT_DB, WorkerProcess, environment

from ditto_tasks.client import Ditto
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import ServiceError
from ditto_tasks.settings import load_settings

WAIT_S = 20.0


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_raw_error_tells_its_class_only(log_format: str) -> None:
    """The caller hears SERVICE_ERROR; the log names class and place; no result, log or traceback has more."""
    with EmbeddedServer() as server:
        env = {"DITTO_LOG_FORMAT": log_format}
        settings = load_settings(None, environment(server))
        with WorkerProcess(server, app=NAME, env=env) as worker, Ditto(settings, nodes=ROWS) as client:
            pending = client.invoke(NODE, {"query": CANARY})
            with pytest.raises(ServiceError) as caught:
                pending.get(WAIT_S)
            with redis.Redis.from_url(server.redis_url(RESULT_DB)) as results:
                stored = json.loads(results.get(f"celery-task-meta-{pending.id}") or b"{}")
            logs = worker.logs()
    assert (caught.value.code, caught.value.message) == ("SERVICE_ERROR", f"{NODE} met RuntimeError")
    assert "RuntimeError in leak:" in logs
    assert CANARY not in json.dumps(stored) + logs
