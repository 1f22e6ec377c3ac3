"""A deployment whose shards a test can look into: short leases, mutations that suffer, workers by name."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import redis

from ditto_tasks.canonical import scope_key
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.keys import Keys
from ditto_tasks.sharding import shard_of
from ditto_tasks.worker.inspection import ShardRow, read_shards
from support.polling import eventually
from support.resolver import FACTORY, suffering
from support.workers import BROKER_DB, CONTEXT_DB, RESULT_DB, WorkerProcess, client_app, environment

KEYS = Keys("default")
RESULT_KEY = "celery-task-meta-"
QUIET = ("-l", "INFO", "--without-mingle", "--without-gossip")


class Fleet:
    """A broker, a state server (of its own if asked for), a client, and the workers that a test starts."""

    def __init__(
        self,
        *,
        lease_ms: int = 1_000,
        mutation_timeout_ms: int = 30_000,
        outage_patience_ms: int = 60_000,
        shards: int = 16,
        own_state: bool = False,
        events: bool = True,
    ) -> None:
        self.shards = shards
        self._events = events
        self.server = EmbeddedServer()
        self.state_server = EmbeddedServer() if own_state else self.server
        self._runtime = {
            "shards": {
                "count": shards,
                "leaseMs": lease_ms,
                "mutationTimeoutMs": mutation_timeout_ms,
                "outagePatienceMs": outage_patience_ms,
            }
        }
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="ditto-fleet-")))
        for server in {self.server, self.state_server}:
            server.start()
            self._stack.callback(server.stop)
        config = {
            "runtime": self._runtime,
            "workers": {"context": {"policy": {"maxItems": 10_000, "duplicate": "reject"}}},
        }
        (self.folder / "ditto.yaml").write_text(json.dumps(config))
        self.env = environment(
            self.server,
            DITTO_CONFIG=str(self.folder / "ditto.yaml"),
            DITTO_EXTENSIONS=FACTORY,
            DITTO_WORKER_CONTEXT_REDIS_URL=self.state_server.redis_url(CONTEXT_DB),
        )
        self.app = client_app(self.server, **self.env)
        self._stack.callback(self.app.close)
        self.broker = self._client(self.server, BROKER_DB)
        self.results = self._client(self.server, RESULT_DB)
        self.state = self._client(self.state_server, CONTEXT_DB)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _client(self, server: EmbeddedServer, db: int) -> "redis.Redis":
        client = redis.Redis.from_url(server.redis_url(db))
        self._stack.callback(client.close)
        return client

    def worker(
        self,
        name: str = "w1",
        *,
        queues: Sequence[str] = (),
        args: Sequence[str] = QUIET,
        app: str = "ditto_tasks",
    ) -> WorkerProcess:
        """A worker that is not yet started; the fleet closes it at its end."""
        worker = WorkerProcess(
            self.server, queues=queues, env=self.env, args=args, name=name, events=self._events, app=app
        )
        self._stack.callback(worker.close)
        return worker

    def start(self, name: str = "w1", *, queues: Sequence[str] = ()) -> WorkerProcess:
        """A worker that runs."""
        return self.worker(name, queues=queues).start()

    def send(self, session: str, task_id: str, node: str = "CONTEXT.UPDATE", **wire: Any) -> str:
        """Send one scoped call; its task id."""
        options = wire.pop("ditto", {"onMissing": "create"} if node == "CONTEXT.UPDATE" else {})
        kwargs = {"scope": {"sessionId": session}, "ditto": options, **wire}
        self.app.send_task(node, kwargs=kwargs, task_id=task_id)
        return task_id

    def append(self, session: str, task_id: str, **options: Any) -> str:
        """Add an item that is called like the call."""
        item = {"id": task_id, "content": task_id}
        return self.send(session, task_id, add=[item], ditto={"onMissing": "create", **options})

    def suffer(self, session: str, task_id: str, *uris: str) -> str:
        """Replace the scope's state by a mutation that resolves these references."""
        return self.send(session, task_id, "CONTEXT.LOAD", **suffering(*uris))

    def stored(self, task_id: str) -> Mapping[str, Any] | None:
        """The final result as it is stored, if there is one."""
        raw = self.results.get(RESULT_KEY + task_id)
        result = json.loads(raw) if raw else {}
        return result if result.get("status") in ("SUCCESS", "FAILURE") else None

    def result(self, task_id: str, timeout_s: float = 30.0) -> Mapping[str, Any]:
        """The final result of a call."""
        return eventually(lambda: self.stored(task_id), timeout_s, message=f"no result of {task_id}")

    def receipt(self, task_id: str, timeout_s: float = 30.0) -> Any:
        """What a call that has to succeed answered."""
        result = self.result(task_id, timeout_s)
        assert result["status"] == "SUCCESS", result
        return result["result"]

    def code(self, task_id: str, timeout_s: float = 30.0) -> str:
        """The code of a call that has to fail."""
        result = self.result(task_id, timeout_s)
        assert result["status"] == "FAILURE", result
        return str(result["result"]["exc_message"][0])

    def items(self, session: str) -> list[str]:
        """The ids of the items that are stored for a session."""
        raw = self.state.get(f"ditto:context:{scope_key({'sessionId': session})}")
        return [item["id"] for item in json.loads(raw)["context"]["items"]] if raw else []

    def shard(self, session: str) -> int:
        """The shard of a session."""
        return shard_of(scope_key({"sessionId": session}), self.shards)

    def sessions_beside(self, session: str, count: int) -> list[str]:
        """Sessions that share no shard with this one, nor with each other."""
        found = {self.shard(session): session}
        for number in range(1_000):
            found.setdefault(self.shard(f"{session}:{number}"), f"{session}:{number}")
        return [name for name in found.values() if name != session][:count]

    def session_of(self, owner: str) -> str:
        """A session whose shard that worker holds."""
        owners = self.owners()
        names = (f"{owner}:{number}" for number in range(1_000))
        return next(name for name in names if owners[self.shard(name)].startswith(f"{owner}@"))

    def rows(self) -> list[ShardRow]:
        """All shards as `ditto shards` shows them."""
        return read_shards(self.broker, KEYS, self.shards)

    def owners(self) -> dict[int, str]:
        """Who holds which shard, by Celery's name of the worker."""
        return {row.shard: row.owner.split(":")[0] for row in self.rows() if row.owner}

    def shards_of(self, worker: str) -> int:
        """How many shards a worker holds."""
        return sum(owner.startswith(f"{worker}@") for owner in self.owners().values())

    def wait_balanced(self, *workers: str) -> None:
        """Until all shards are held, and by all of these workers."""

        def balanced() -> bool:
            owners = self.owners()
            names = {owner.split("@")[0] for owner in owners.values()}
            return len(owners) == self.shards and names == set(workers)

        eventually(balanced, 30)
