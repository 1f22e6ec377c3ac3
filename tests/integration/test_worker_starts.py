"""A worker that can't find what it was told to serve ends at once, and says what is missing."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.polling import eventually
from support.workers import ALONE, READY, WorkerProcess, environment

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.settings import child_environment

WAIT_S = 60.0
APP = """
from ditto_tasks.celery import create_app
from ditto_tasks.nodes import NodeType

app = create_app(nodes=[NodeType("MINE.NODE", "MINE", handlers="{module}")])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


def ended(server: EmbeddedServer, folder: Path, *arguments: str, **more: str) -> tuple[int, str]:
    """The exit code and the output of a worker that ends by itself."""
    env = child_environment({**environment(server, **more), "PYTHONPATH": str(folder)})
    app = "mine_app" if (folder / "mine_app.py").exists() else "ditto_tasks"
    command = [sys.executable, "-m", "celery", "-A", app, "worker", *ALONE, *arguments]
    done = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nosuch.module:ext", "nosuch.module can't be imported (there is no module nosuch)"),
        ("good_module:ext", "good_module has no ext"),
        ("bad_module:ext", "bad_module can't be imported (ZeroDivisionError)"),
    ],
)
def test_a_worker_without_its_extension_does_not_start(
    server: EmbeddedServer, tmp_path: Path, name: str, reason: str
) -> None:
    """Its tasks would fail one by one, and nobody would look at its log."""
    (tmp_path / "good_module.py").write_text("other = 1\n", "utf-8")
    (tmp_path / "bad_module.py").write_text("1 / 0\n", "utf-8")
    code, output = ended(server, tmp_path, DITTO_EXTENSIONS=name)
    assert (code, READY in output) == (1, False)
    assert f"EXTENSION_NOT_FOUND: DITTO_EXTENSIONS: {reason}" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("mine.tasks", "mine.tasks can't be imported (there is no module mine)"),
        ("os.path", "os.path has no HANDLERS"),
        ("other_nodes", "HANDLERS of other_nodes has no such node"),
    ],
)
def test_a_worker_without_its_nodes_handlers_does_not_start(
    server: EmbeddedServer, tmp_path: Path, module: str, reason: str
) -> None:
    """The module and the node are named."""
    (tmp_path / "other_nodes.py").write_text("HANDLERS = {}\n", "utf-8")
    (tmp_path / "mine_app.py").write_text(APP.format(module=module), "utf-8")
    code, output = ended(server, tmp_path)
    assert (code, READY in output) == (1, False)
    assert f"HANDLER_NOT_FOUND: MINE.NODE: {reason}" in output


def test_a_worker_of_other_queues_needs_no_such_handlers(server: EmbeddedServer, tmp_path: Path) -> None:
    """Each machine has the modules of what it serves; factories are found, and not called."""
    (tmp_path / "mine_app.py").write_text(APP.format(module="mine.tasks"), "utf-8")
    (tmp_path / "lazy_ext.py").write_text("def ext(settings):\n    raise SystemExit('called')\n", "utf-8")
    env = {"PYTHONPATH": str(tmp_path), "DITTO_EXTENSIONS": "lazy_ext:ext"}
    with WorkerProcess(server, queues=["ditto.memory"], app="mine_app", env=env) as worker:
        eventually(lambda: READY in worker.logs())
