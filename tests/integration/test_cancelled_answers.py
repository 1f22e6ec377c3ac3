"""An answer that is cancelled before any worker begins it: shown as sent before, and quiet in logs after."""

import json

import pytest
from click.testing import CliRunner
from support.deployments import deployment
from support.polling import eventually

from ditto_tasks import Ditto
from ditto_tasks.cli import celery_group
from ditto_tasks.errors import Cancelled

SCOPE = {"sessionId": "acme:one"}
WAIT_S = 30.0


def test_an_answer_that_was_cancelled_unbegun_is_one_line_of_info(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in a queue is shown as sent; the worker that takes it later logs no error."""
    searches = [{"node": "MEMORY.SEARCH"}, {"node": "MEMORY.SEARCH"}]
    with deployment() as running, Ditto(running.settings) as client:
        for name, value in running.variables.items():
            monkeypatch.setenv(name, value)
        pending = client.answer(SCOPE, "x", create=True, searches=searches)
        shown = CliRunner().invoke(celery_group, ["runs", "show", pending.id, "--json"]).stdout
        states = {node["id"]: node["state"] for node in json.loads(shown)["nodes"]}
        assert [states[name] for name in ("search-0", "search-1", "update")] == ["sent", "sent", "waiting"]
        headline = CliRunner().invoke(celery_group, ["runs", "show", pending.id]).stdout
        assert headline.startswith("answer · running")
        pending.cancel()
        with pytest.raises(Cancelled):
            pending.get(WAIT_S)
        with running.worker() as worker:
            eventually(lambda: "A canvas ended before its last step" in worker.logs(), WAIT_S)
            client.memory.search(query="after it").get(WAIT_S)
            logs = worker.logs()
    (line,) = [each for each in logs.splitlines() if "A canvas ended" in each]
    assert "INFO" in line
    assert "PIPELINE_ENDED" in line
    assert "Traceback" not in logs
    assert "ERROR" not in logs
