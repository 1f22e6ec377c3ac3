"""`make demo` as a stranger runs it: a readable account, an honest exit code, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.polling import eventually

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 110.0


def demo(*arguments, **options):
    """The command in a session of its own, with a marker that its children inherit."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
    return subprocess.Popen(
        [sys.executable, "-m", "ditto_tasks", "demo", *arguments],
        env={**environment, **options},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def processes_with(marker):
    """Ids of the processes whose environment holds the marker, workers and servers of the demo included."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in environment and state != "Z":
            found.append(int(folder.name))
    return found


@pytest.fixture
def marker():
    return f"demo-of-{os.getpid()}-{os.urandom(4).hex()}"


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "orders.md").write_text(
        "# Orders\n\nEvery order of a customer is packed in sequence, because parcels share one box.\n\n"
        "## Returns\n\nA return is booked within two days.\n",
        "utf-8",
    )
    (tmp_path / "ignored.bin").write_bytes(b"\x00")
    return tmp_path


@pytest.mark.timeout(150)
def test_the_demo_accounts_for_an_answer_from_the_folders_texts(docs, marker):
    """Hits, selection with its sum, the answer with item ids, task ids and Flower are shown; exit code 0."""
    running = demo("--docs", str(docs), "--question", "Why is every order packed in sequence?", MARKER=marker)
    shown, _ = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 0, shown
    assert "parcels share one box" in shown
    assert re.search(r"Flower.*http://127\.0\.0\.1:\d+", shown)
    assert re.search(r"\d+ \+ \d+ = \d+ of 400 tokens", shown)
    assert re.search(r"\[memory:[0-9a-f-]+\]", shown)
    for step in ("load", "search-0", "search-1", "update", "select", "sample", "turn"):
        assert re.search(rf"{step}\b", shown)
    assert processes_with(marker) == []


@pytest.mark.timeout(150)
def test_ctrl_c_leaves_nothing_behind(docs, marker):
    """Interrupted while its workers start, the demo ends with 130 and no process of it remains."""
    running = demo("--docs", str(docs), MARKER=marker)
    eventually(lambda: len(processes_with(marker)) >= 5, 60.0)
    running.send_signal(signal.SIGINT)
    shown, _ = running.communicate(timeout=60.0)
    assert running.returncode == 130, shown
    assert processes_with(marker) == []


@pytest.mark.timeout(150)
def test_a_failed_step_is_an_error_of_the_demo(docs, marker):
    """With a model provider that does not answer the exit code is 1, and the typed error is shown."""
    broken = {
        "DITTO_SHARED_PROVIDERS": "broken",
        "DITTO_SHARED_PROVIDER_BROKEN_KIND": "openai",
        "DITTO_SHARED_PROVIDER_BROKEN_BASE_URL": "http://127.0.0.1:9/v1",
        "DITTO_SHARED_PROVIDER_BROKEN_API_KEY": "none",
        "DITTO_SHARED_PROVIDER_BROKEN_MODEL": "m",
        "DITTO_WORKER_INFER_MODEL_PROVIDER": "broken",
    }
    running = demo("--docs", str(docs), MARKER=marker, **broken)
    shown, _ = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 1, shown
    assert "MODEL_ERROR" in shown or "PROVIDER_HTTP_ERROR" in shown
    assert processes_with(marker) == []


def test_an_empty_folder_is_refused_before_anything_starts(tmp_path, marker):
    """Without a text there is nothing to ask about: the usage error says so."""
    running = demo("--docs", str(tmp_path), MARKER=marker)
    shown, _ = running.communicate(timeout=TIMEOUT_S)
    assert running.returncode == 2, shown
    assert "no text" in shown
