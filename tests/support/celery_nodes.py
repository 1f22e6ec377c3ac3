"""pytest-celery's nodes for Ditto: containers where there is a Docker engine, else local processes.

A local process answers to the few methods of docker's Container that pytest-celery calls, so that its own
classes of nodes, and the tests, are the same both ways.
"""

import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_celery import CeleryTestSetup, CeleryWorkerContainer, RedisContainer

from ditto_tasks.celery import DittoCelery, create_app
from ditto_tasks.embedded import find_server_binary
from ditto_tasks.settings import load_settings
from support.polling import eventually
from support.servers import free_port

ROOT = Path(__file__).parents[2]
WORKER_IMAGE = "ditto-tasks"  # as compose.yaml builds it
SERVER_IMAGE = "valkey/valkey:9.0"
READY_S = 60.0  # a cold start on a machine whose two cores are busy
GRACE_S = 20
PERSISTENT = (
    "--save",
    "",
    "--appendonly",
    "yes",
    "--maxmemory-policy",
    "noeviction",
    "--protected-mode",
    "no",
)


def docker_is_there() -> bool:
    """Whether an engine answers; DITTO_TEST_NODES=local|docker decides without asking."""
    wanted = os.environ.get("DITTO_TEST_NODES", "")
    if wanted:
        return wanted == "docker"
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def variables(broker: str, results: str) -> dict[str, str]:
    """The environment of one deployment; contexts are in another database of the results' server."""
    return {
        "DITTO_BROKER_URL": broker,
        "DITTO_RESULT_BACKEND_URL": results,
        "DITTO_WORKER_CONTEXT_REDIS_URL": f"{results.rpartition('/')[0]}/2",
        "DITTO_WORKER_MEMORY_URL": "sqlite:///memory.sqlite3",  # in the folder that the worker runs in
    }


class DittoSetup(CeleryTestSetup):
    """A setup whose application is Ditto's."""

    @classmethod
    def create_setup_app(
        cls,
        celery_setup_config: dict[str, str],
        celery_setup_app_name: str,  # noqa: ARG003 -- pytest-celery's signature
    ) -> DittoCelery:
        urls = celery_setup_config["broker_url"], celery_setup_config["result_backend"]
        return create_app(load_settings(None, variables(*urls)))

    def teardown(self) -> None:
        self.app.close()  # it has pinged workers: else the collector finds open sockets in a later test
        super().teardown()


class ServerContainer(RedisContainer):
    """Valkey as compose.yaml runs it: it keeps over a restart what it was told."""

    @classmethod
    def image(cls) -> str:
        return SERVER_IMAGE

    @classmethod
    def ports(cls) -> dict[str, int]:
        return {"6379/tcp": free_port()}  # a port chosen by the engine would change at a restart

    @classmethod
    def command(cls, *args: str, **_kwargs: Any) -> list[str]:
        return ["valkey-server", *PERSISTENT, *args]

    @property
    def host_url(self) -> str:
        host, port = self.get_addr("6379/tcp")  # not "localhost": these tests may run in a container as well
        return f"{self.prefix()}{host}:{port}/{self.vhost}"


class WorkerContainer(CeleryWorkerContainer):
    """A worker from the image of compose.yaml."""

    @classmethod
    def command(cls, *args: str, **_kwargs: Any) -> list[str]:
        return ["celery", "-A", "ditto_tasks", "worker", "-n", f"{cls.worker_name()}@%h", "-l", "INFO", *args]

    @classmethod
    def initial_env(
        cls, celery_worker_cluster_config: dict[str, Any], initial: dict[str, str] | None = None
    ) -> dict[str, str]:
        broker = celery_worker_cluster_config["celery_broker_cluster_config"]["urls"][0]
        results = celery_worker_cluster_config["celery_backend_cluster_config"]["urls"][0]
        return {**variables(broker, results), **(initial or {})}


class LocalProcess:
    """A process that stands in for docker's Container."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.id = uuid.uuid4().hex
        self.name = f"local-{self.id[:12]}"
        self._folder = tempfile.TemporaryDirectory(prefix="ditto-node-")
        self._command, self._env = list(command), {**_clean_environment(), **env}
        self._log = Path(self._folder.name) / "log"
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._env, cwd=self._folder.name, stdout=log, stderr=log
            )

    @property
    def status(self) -> str:
        return "running" if self._process.poll() is None else "exited"

    @property
    def attrs(self) -> dict[str, Any]:
        """Empty: addresses are those of the machine."""
        return {"NetworkSettings": {"Networks": {}, "Ports": {}}}

    def reload(self) -> None:
        self._process.poll()

    def logs(self, **_options: Any) -> bytes:
        return self._log.read_bytes()

    def kill(self, signal: str | int = "SIGKILL") -> None:
        self._process.send_signal(_number(signal))
        if _number(signal) == 9:
            self._process.wait()

    def restart(self, timeout: int = GRACE_S) -> None:
        self.stop(timeout)
        self._start()

    def stop(self, timeout: int = GRACE_S) -> None:
        """As `docker stop`: a request, and after some time no request any more."""
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def remove(self) -> None:
        self.stop()
        self._folder.cleanup()


class _Local:
    """What a node asks of docker, answered for a process of this machine."""

    def ready(self) -> bool:
        self._await_prompt(0)
        return True

    def restart(self, timeout: int = GRACE_S) -> None:
        said = len(self._container.logs())
        self._container.restart(timeout)
        self._await_prompt(said)

    def _await_prompt(self, after: int) -> None:
        prompt = str(self.ready_prompt).encode()
        eventually(lambda: prompt in self._container.logs()[after:], READY_S, message=self.name)


class LocalServer(_Local, ServerContainer):
    """Valkey on a loopback port."""

    def __init__(self) -> None:
        self._port = free_port()
        options = ["--port", str(self._port), "--bind", "127.0.0.1"]
        super().__init__(LocalProcess([str(find_server_binary()), *PERSISTENT, *options], {}))

    def get_addr(self, _port: str) -> tuple[str, int]:
        return self.hostname, self._port

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        return self.host_url  # one network: a worker uses the test's address

    @property
    def hostname(self) -> str:
        return "127.0.0.1"


class LocalWorker(_Local, WorkerContainer):
    """A worker of this checkout."""

    def __init__(self, env: Mapping[str, str], command: Sequence[str]) -> None:
        super().__init__(LocalProcess([sys.executable, "-m", *command], env))


def _number(name: str | int) -> int:
    return name if isinstance(name, int) else signal.Signals[name].value


def _clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
    return {**kept, "PYTHONPATH": str(ROOT)}
