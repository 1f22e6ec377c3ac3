"""The real Flower in tests, started from config/flowerconfig.py as an operator starts it."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Self

from support.polling import eventually
from support.servers import free_port

ROOT = Path(__file__).parents[2]
START_S = 60.0  # a cold start on a machine whose two cores are busy
STOP_S = 20.0


class Page(NamedTuple):
    """An answer of Flower."""

    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class FlowerProcess:
    """One Flower; as a context manager it answers inside of the block."""

    def __init__(self, folder: Path, env: Mapping[str, str], *, credential: str | None = None) -> None:
        self._folder, self._credential, self.port = folder, credential, free_port()
        self._log = folder / f"flower-{self.port}.log"
        given = {"DITTO_FLOWER_BASIC_AUTH": credential} if credential else {}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
        self._env = {
            **inherited,
            "PYTHONPATH": str(ROOT),
            **env,
            "DITTO_RESULT_BACKEND_URL": "disabled://",
            **given,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def launch(self) -> subprocess.Popen[bytes]:
        """Start it, and don't wait for anything."""
        command = [sys.executable, "-m", "celery", "-A", "ditto_tasks", "flower"]
        command += [f"--conf={ROOT / 'config' / 'flowerconfig.py'}", f"--port={self.port}"]
        command += [f"--db={self._folder / 'flower'}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=self._env, cwd=self._folder, stdout=log, stderr=log)
        return self._process

    def __enter__(self) -> Self:
        process = self.launch()
        eventually(lambda: "Connected to" in self.log() or process.poll() is not None, START_S)
        assert process.poll() is None, self.log()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        """All output so far."""
        return self._log.read_text("utf-8", "replace")

    def get(self, path: str, *, method: str = "GET", credential: str | None = "") -> Page:
        """A page, asked for with Flower's own credential unless another one (or None) is given."""
        who = self._credential if credential == "" else credential
        headers = {} if who is None else {"Authorization": f"Basic {base64.b64encode(who.encode()).decode()}"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return Page(answer.status, answer.read().decode("utf-8", "replace"))

    def tasks(self) -> dict[str, dict[str, Any]]:
        """What Flower knows of each task, by id."""
        found: dict[str, dict[str, Any]] = self.get("/api/tasks?limit=1000").json()
        return found

    def worker_pages(self) -> str:
        """The pages of all workers, which list the tasks in work; Flower renews them behind each visit."""
        workers = self.get("/api/workers").json()
        return "".join(self.get(f"/worker/{worker}").text for worker in workers)

    def everything(self) -> dict[str, str]:
        """Every page that a visitor can open, and every answer of the API that only reads."""
        workers = list(self.get("/api/workers?refresh=1").json())
        tasks = list(self.tasks())
        paths = ["/", "/workers", "/workers?json=1", "/tasks", "/broker", "/metrics", "/healthcheck"]
        paths += ["/api/workers", "/api/tasks?limit=1000", "/api/task/types", "/api/queues/length", _TABLE]
        paths += [f"/worker/{worker}" for worker in workers]
        paths += [path for task in tasks for path in (f"/task/{task}", f"/api/task/info/{task}")]
        pages = {path: self.get(path) for path in paths}
        refused = {path: page.status for path, page in pages.items() if page.status != 200}
        assert not refused, refused
        return {path: page.text for path, page in pages.items()}


# what the table of tasks asks for, all columns
_TABLE = "/tasks/datatable?draw=1&start=0&length=100&search[value]=&order[0][column]=0&order[0][dir]=asc" + (
    "".join(f"&columns[{number}][data]={name}" for number, name in enumerate(("name", "uuid", "state")))
)


def metric(text: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    samples = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", text, re.MULTILINE)
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(value) for shown, value in samples if all(part in shown for part in wanted))
