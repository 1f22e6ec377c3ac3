"""Real workers in tests: `celery -A ditto_tasks worker` as a child process on an embedded server."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.nodes import ORDINARY_QUEUES
from ditto_tasks.settings import default_settings, load_settings
from ditto_tasks.sharding import shard_queue
from support.polling import eventually

READY = " ready."  # Celery's own line, logged once the consumer runs
SHOWN_LINES = 80  # of a log, beside a failure: the reason is at its end
READY_TIMEOUT_S = 60.0  # a cold start on a machine whose two cores are busy
STOP_TIMEOUT_S = 30.0
RESULT_TIMEOUT_S = 20.0
ALONE = ("--without-mingle",)  # no second is spent at each start on what other workers may have to tell
BROKER_DB, RESULT_DB, CONTEXT_DB = 0, 1, 2


def environment(server: EmbeddedServer, **more: str) -> dict[str, str]:
    """The variables that a client and a worker of the same deployment need."""
    return {
        "DITTO_BROKER_URL": server.url(BROKER_DB),
        "DITTO_RESULT_BACKEND_URL": server.url(RESULT_DB),
        "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(CONTEXT_DB),
        **more,
    }


def client_app(server: EmbeddedServer, **more: str) -> DittoCelery:
    """An application in this process that publishes to the same server."""
    return create_app(load_settings(None, environment(server, **more)))


def every_queue() -> list[str]:
    """The ordinary queues and those of all shards."""
    shards = default_settings().runtime.shards.count
    return [*ORDINARY_QUEUES, *(shard_queue(shard) for shard in range(shards))]


class WorkerProcess:
    """One worker; as a context manager it is ready inside of the block and stopped after it."""

    def __init__(
        self,
        server: EmbeddedServer,
        *,
        queues: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        args: Sequence[str] = ALONE,
        name: str = "w1",
        log_level: str = "DEBUG",
        events: bool = True,
        app: str = "ditto_tasks",
    ) -> None:
        self._env = {**_inherited(), **environment(server), **(env or {})}
        self._command = [sys.executable, "-m", "celery", "-A", app, "worker", "-n", f"{name}@%h"]
        self._command += ["-l", log_level, *(["-E"] if events else [])]
        self._command += [*(["-Q", ",".join(queues)] if queues else []), *args]
        self._directory = tempfile.TemporaryDirectory(prefix="ditto-worker-")
        self._log = Path(self._directory.name) / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start and wait until it takes tasks."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                cwd=self._directory.name,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return once the worker said that it is ready; AssertionError with its log otherwise."""
        try:
            eventually(lambda: READY in self.logs() or not self.alive, timeout_s)
        except AssertionError:
            raise AssertionError(f"the worker did not get ready:\n{self.last_lines()}") from None
        assert self.alive, f"the worker ended:\n{self.last_lines()}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def logs(self) -> str:
        """All that the worker wrote so far."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def last_lines(self) -> str:
        """The end of that, for a person."""
        return "\n".join(self.logs().splitlines()[-SHOWN_LINES:])

    def kill(self) -> None:
        """kill -9: no farewell, no acknowledgement."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """A warm shutdown: what runs is finished. Idempotent."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self.alive:
            os.kill(self._process.pid, how)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the worker did not stop:\n{self.last_lines()}") from None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            print(self.last_lines())  # noqa: T201 -- pytest shows it beside the failure
        self.close()

    def close(self) -> None:
        """Stop, and forget the log."""
        try:
            self.stop()
        finally:
            self._directory.cleanup()


class Deployment:
    """A server, one worker on it and a client: what a test of tasks needs."""

    def __init__(
        self, *, args: Sequence[str] = ALONE, env: Mapping[str, str] | None = None, log_level: str = "DEBUG"
    ) -> None:
        self.server = EmbeddedServer()
        self.env = dict(env or {})
        self._args = args
        self._log_level = log_level

    def __enter__(self) -> Self:
        self.server.start()
        self.app = client_app(self.server, **self.env)
        self.worker = WorkerProcess(
            self.server, env=self.env, args=self._args, log_level=self._log_level
        ).start()
        self.broker: redis.Redis = redis.Redis.from_url(self.server.redis_url(BROKER_DB))
        self.state: redis.Redis = redis.Redis.from_url(self.server.redis_url(CONTEXT_DB))
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.close()
        self.app.close()
        self.broker.close()
        self.state.close()
        self.server.stop()

    def call(
        self,
        node: str,
        *,
        options: Mapping[str, object] | None = None,
        task_id: str | None = None,
        **wire: Any,
    ) -> Any:
        """Send one call and wait for its result; raises what the task raised."""
        return self.send(node, options=options, task_id=task_id, **wire).get(timeout=RESULT_TIMEOUT_S)

    def send(
        self,
        node: str,
        *,
        options: Mapping[str, object] | None = None,
        task_id: str | None = None,
        **wire: Any,
    ) -> Any:
        """Send one call."""
        kwargs = {**wire, **({"ditto": dict(options)} if options is not None else {})}
        return self.app.send_task(node, kwargs=kwargs, task_id=task_id)


def _inherited() -> dict[str, str]:
    """This process's environment without Ditto's variables, and with this checkout importable."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
    root, tests = Path(__file__).parents[2], Path(__file__).parents[1]
    return {**kept, "PYTHONPATH": os.pathsep.join([str(root), str(tests)])}
