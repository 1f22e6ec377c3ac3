"""Commands that meet a fault of their surroundings: told as what it is."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.batches import ditto
from support.workers import environment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import StateBackendError
from ditto_tasks.settings import child_environment
from ditto_tasks.state.redis import translated_errors

WAIT_S = 60.0


@pytest.fixture(scope="module")
def env() -> Iterator[dict[str, str]]:
    with EmbeddedServer() as server:
        yield environment(server, DITTO_METRICS_BASIC_AUTH="someone:for-tests-only")


def test_a_report_that_cannot_be_written_is_no_fault_of_the_store(
    env: dict[str, str], tmp_path: Path
) -> None:
    """The file is named, and nothing was sent."""
    missing = tmp_path / "none" / "report.jsonl"
    shown = ditto(env, "compress", "--match", "", "--report", str(missing), cwd=tmp_path, code=1)
    assert f"FILE_NOT_WRITTEN: {missing}: No such file or directory; nothing was sent" in shown
    assert "STATE_BACKEND" not in shown


def test_errors_of_files_are_not_the_stores() -> None:
    """A socket's are."""
    with pytest.raises(FileNotFoundError), translated_errors():
        raise FileNotFoundError
    with pytest.raises(StateBackendError), translated_errors():
        raise ConnectionResetError


def test_metrics_end_quietly_on_ctrl_c(env: dict[str, str], tmp_path: Path) -> None:
    """As other servers do."""
    command = [sys.executable, "-u", "-m", "ditto_tasks", "metrics", "--port", "0"]
    with subprocess.Popen(
        command, env=child_environment(env), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert (process.wait(WAIT_S), rest) == (0, b"")
