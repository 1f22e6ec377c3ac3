"""A whole deployment for a module of tests: own server, memory and settings; tests start its workers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.settings import Settings, load_settings
from support.workers import WorkerProcess, environment


@dataclass(frozen=True)
class Deployment:
    """Where a client and workers meet."""

    server: EmbeddedServer
    variables: Mapping[str, str]
    settings: Settings

    def worker(self, *queues: str, name: str = "w1") -> WorkerProcess:
        """A worker of this deployment, not yet started."""
        return WorkerProcess(self.server, queues=queues, env=self.variables, name=name)


@contextmanager
def deployment(config: str = "", *, more: Mapping[str, str] | None = None) -> Iterator[Deployment]:
    """A deployment without workers; `config` is YAML that is laid over the defaults, `more` are variables."""
    with EmbeddedServer() as server, TemporaryDirectory(prefix="ditto-test-") as folder:
        memory = f"sqlite:///{Path(folder) / 'memory.sqlite3'}"
        variables = {**environment(server, DITTO_WORKER_MEMORY_URL=memory), **(more or {})}
        if config:
            path = Path(folder) / "ditto.yaml"
            path.write_text(config, "utf-8")
            variables["DITTO_CONFIG"] = str(path)
        yield Deployment(server, variables, load_settings(None, variables))
