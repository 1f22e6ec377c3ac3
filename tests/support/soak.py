"""Senders, workers and faults: a seeded run whose recorded history is judged at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from ditto_tasks.canonical import scope_key
from ditto_tasks.embedded import EmbeddedServer
from support.history import Call, Verdict, judge, read_chains
from support.workers import BROKER_DB, RESULT_DB, WorkerProcess, client_app

RESULT_KEY = "celery-task-meta-"
TERMINAL = ("SUCCESS", "FAILURE", "REVOKED")
DURABLE = ("--appendfsync", "always", "--auto-aof-rewrite-percentage", "0")
CLOCK = """
import os, time
offset = float(os.environ.get("SOAK_CLOCK_OFFSET_S", "0"))
if offset:
    clock, clock_ns = time.time, time.time_ns
    time.time = lambda: clock() + offset
    time.time_ns = lambda: clock_ns() + int(offset * 1e9)
"""


@dataclass(frozen=True)
class Plan:
    """How long, how hard, and what goes wrong."""

    mutations: int = 2_000
    kills: int = 8
    freezes: int = 3
    warm_restarts: int = 0
    scalings: int = 0  # 2 -> 4 -> 2 workers
    cuts: int = 0  # all connections to the server at once
    server_restarts: int = 0
    workers: int = 2
    senders: int = 4
    hot_scopes: int = 6
    cold_scopes: int = 60
    lease_ms: int = 1_000
    clock_offset_s: float = 300.0  # between neighbours
    outstanding: int = 200  # calls sent and not heard of
    patience_s: float = 60.0  # for the last results
    seed: int = 1
    logs: Path | None = None  # a folder to keep the workers' logs in


@dataclass
class Report:
    """What a run did and found."""

    verdict: Verdict
    faults: Counter[str]
    mutations: int
    reads: int
    failures: Counter[str]
    replayed: int
    seconds: float

    def lines(self) -> list[str]:
        did = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return [
            f"{self.mutations} mutations and {self.reads} reads in {self.seconds:.0f} s; {did}",
            f"failed with a typed error: {dict(self.failures) or 0}; replayed: {self.replayed}",
            *(f"{name}: {count}" for name, count in vars(self.verdict).items()),
        ]


@dataclass
class _Sender:
    calls: list[Call] = field(default_factory=list)


class Soak:
    """One run of a plan."""

    def __init__(self, plan: Plan, log: Callable[[str], None] = lambda _line: None) -> None:
        self._plan = plan
        self._log = log
        self._random = random.Random(plan.seed)  # noqa: S311 -- a plan, not a secret
        self._stack = ExitStack()
        self._workers: list[WorkerProcess] = []
        self._started = 0
        self._faults: Counter[str] = Counter()
        self._senders = [_Sender() for _ in range(plan.senders)]
        self._heard: dict[str, dict[str, Any]] = {}
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._chaos_is_over = threading.Event()
        self._all_sent = threading.Event()

    def run(self) -> Report:
        """Start everything, break everything, and judge what is left."""
        since = time.monotonic()
        with self._stack:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="ditto-soak-")))
            self._prepare(folder)
            threads = [
                threading.Thread(target=self._send, args=(index,)) for index in range(self._plan.senders)
            ]
            hearing = threading.Thread(target=self._hear)
            for thread in [*threads, hearing]:
                thread.start()
            self._break_things()
            self._chaos_is_over.set()
            for thread in threads:
                thread.join()
            self._all_sent.set()
            hearing.join()
            later = self._results([call.id for sender in self._senders for call in sender.calls])
            for worker in self._workers:
                worker.stop()
                self._save_log(worker)
            self._server.stop_process()
            return self._report(folder / "server", later, time.monotonic() - since)

    def _prepare(self, folder: Path) -> None:
        plan = self._plan
        (folder / "clock").mkdir()
        (folder / "clock" / "sitecustomize.py").write_text(CLOCK)
        config = {
            "runtime": {"shards": {"leaseMs": plan.lease_ms}},
            "workers": {"context": {"policy": {"maxItems": 100_000, "duplicate": "reject"}}},
        }
        (folder / "ditto.yaml").write_text(json.dumps(config))
        self._folder = folder
        self._server = _Server(folder / "server")
        self._stack.callback(self._server.stop_process)
        self._env = {"DITTO_CONFIG": str(folder / "ditto.yaml")}
        self._app = client_app(self._server.embedded, **self._env)
        self._stack.callback(self._app.close)
        self._stack.callback(lambda: [worker.close() for worker in self._workers])
        for _ in range(plan.workers):
            self._add_worker()

    # senders

    def _send(self, index: int) -> None:
        chance, plan = random.Random(f"{self._plan.seed}/{index}"), self._plan  # noqa: S311 -- as above
        mutations = 0
        while mutations < plan.mutations // plan.senders or not self._chaos_is_over.is_set():
            while len(self._waiting) >= plan.outstanding:
                _pause(0.005)
            is_read = chance.random() < 0.1
            mutations += not is_read
            self._call(index, self._scope(chance, index), is_read=is_read)

    def _scope(self, chance: random.Random, index: int) -> dict[str, str]:
        """Hot scopes are everybody's; cold ones are one sender's."""
        if chance.random() < 0.5:
            return {"sessionId": f"hot:{chance.randrange(self._plan.hot_scopes)}"}
        own = chance.randrange(self._plan.cold_scopes // self._plan.senders)
        return {"sessionId": f"cold:{index}:{own}"}

    def _call(self, index: int, scope: dict[str, str], *, is_read: bool) -> None:
        calls = self._senders[index].calls
        call = Call(f"soak-{index}-{len(calls)}", scope_key(scope), is_read)
        calls.append(call)
        with self._lock:
            self._waiting.add(call.id)
        wire: dict[str, Any] = {"scope": scope, "ditto": {"consistency": "session", "reply": "receipt"}}
        if not is_read:
            wire = {"scope": scope, "add": [{"id": call.id, "content": 1}], "ditto": {"onMissing": "create"}}
        while True:  # a sender that does not know whether its call arrived sends it again under the same id
            with suppress(Exception):
                self._app.send_task(
                    "CONTEXT.LOAD" if is_read else "CONTEXT.UPDATE", kwargs=wire, task_id=call.id
                )
                return
            self._faults["repeated sends"] += 1
            _pause(0.05)

    # results

    def _hear(self) -> None:
        deadline_s: float | None = None
        while self._waiting or not self._all_sent.is_set():
            if self._all_sent.is_set():
                deadline_s = deadline_s or time.monotonic() + self._plan.patience_s
                if time.monotonic() > deadline_s:
                    return
            for task_id, result in self._results(list(self._waiting)).items():
                self._heard[task_id] = result
                with self._lock:
                    self._waiting.discard(task_id)
            _pause(0.02)

    def _results(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        with suppress(redis.RedisError, OSError):
            for start in range(0, len(ids), 500):
                part = ids[start : start + 500]
                for task_id, raw in zip(
                    part, self._server.results.mget([RESULT_KEY + name for name in part]), strict=True
                ):
                    result = json.loads(raw) if raw else {}
                    if result.get("status") in TERMINAL:
                        found[task_id] = result
        return found

    # faults

    def _break_things(self) -> None:
        plan = self._plan
        faults: list[Callable[[], None]] = [
            *[self._kill] * plan.kills,
            *[self._freeze] * plan.freezes,
            *[self._restart_warm] * plan.warm_restarts,
            *[self._scale] * plan.scalings,
            *[self._cut] * plan.cuts,
            *[self._restart_server] * plan.server_restarts,
        ]
        self._random.shuffle(faults)
        for number, fault in enumerate(faults):
            self._wait_for_work()
            self._log(f"{number + 1}/{len(faults)} {fault.__name__[1:]}, {len(self._heard)} heard")
            fault()

    def _wait_for_work(self) -> None:
        """Faults come at any moment of a worker's life, but mostly when it works."""
        _pause(self._random.uniform(0.05, 0.6))

    def _add_worker(self) -> None:
        self._started += 1
        offset_s = self._plan.clock_offset_s * (self._started % 3 - 1)
        root, tests = Path(__file__).parents[2], Path(__file__).parents[1]
        env = {
            **self._env,
            "SOAK_CLOCK_OFFSET_S": str(offset_s),
            "PYTHONPATH": os.pathsep.join([str(self._folder / "clock"), str(root), str(tests)]),
        }
        args = ["-l", "INFO", "--without-mingle", "--without-gossip"]
        worker = WorkerProcess(self._server.embedded, env=env, args=args, name=f"soak{self._started}")
        self._workers.append(worker.start())

    def _pick(self) -> WorkerProcess:
        worker = self._random.choice(self._workers)
        self._workers.remove(worker)
        return worker

    def _kill(self) -> None:
        self._faults["kills"] += 1
        worker = self._pick()
        worker.kill()
        self._part_with(worker)
        self._add_worker()

    def _freeze(self) -> None:
        """Stop a worker for longer than its lease, then let it go on where it was."""
        self._faults["freezes"] += 1
        worker = self._random.choice(self._workers)
        os.kill(worker.pid, signal.SIGSTOP)
        _pause(self._plan.lease_ms / 1000 * self._random.uniform(1.2, 2.0))
        os.kill(worker.pid, signal.SIGCONT)

    def _restart_warm(self) -> None:
        self._faults["warm restarts"] += 1
        worker = self._pick()
        worker.stop()
        self._part_with(worker)
        self._add_worker()

    def _scale(self) -> None:
        self._faults["scalings"] += 1
        for _ in range(2):
            self._add_worker()
        self._wait_for_work()
        for _ in range(2):
            worker = self._pick()
            worker.stop()
            self._part_with(worker)

    def _cut(self) -> None:
        self._faults["cuts"] += 1
        self._server.broker.client_kill_filter(_type="normal", skipme=True)

    def _restart_server(self) -> None:
        """In turn in an orderly way, and as by a crash."""
        self._faults["server restarts"] += 1
        if self._faults["server restarts"] % 2:
            self._server.embedded.restart()
        else:
            self._server.embedded.kill()
            self._server.embedded.start()

    def _part_with(self, worker: WorkerProcess) -> None:
        self._save_log(worker)
        worker.close()

    def _save_log(self, worker: WorkerProcess) -> None:
        if self._plan.logs is not None:
            (self._plan.logs / f"{worker.pid}.log").write_text(worker.logs())

    # judgement

    def _report(self, directory: Path, later: Mapping[str, Mapping[str, Any]], seconds: float) -> Report:
        calls = [call for sender in self._senders for call in sender.calls]
        failed = [result for result in self._heard.values() if result["status"] != "SUCCESS"]
        done = [result["result"] for result in self._heard.values() if result["status"] == "SUCCESS"]
        return Report(
            verdict=judge([s.calls for s in self._senders], self._heard, later, read_chains(directory)),
            faults=self._faults,
            mutations=sum(not call.is_read for call in calls),
            reads=sum(call.is_read for call in calls),
            failures=Counter(str(_code(result)) for result in failed),
            replayed=sum(bool(value.get("replayed")) for value in done if isinstance(value, dict)),
            seconds=seconds,
        )


class _Server:
    """A server whose every write is on disk before it is answered, and clients of it."""

    def __init__(self, directory: Path) -> None:
        self.embedded = EmbeddedServer(directory, appendonly=True, extra_args=DURABLE).start()
        self.broker = redis.Redis.from_url(self.embedded.redis_url(BROKER_DB))
        self.results = redis.Redis.from_url(self.embedded.redis_url(RESULT_DB))

    def stop_process(self) -> None:
        """Idempotent."""
        self.broker.close()
        self.results.close()
        self.embedded.stop()


def _code(result: Mapping[str, Any]) -> object:
    value = result.get("result")
    if isinstance(value, Mapping) and value.get("exc_message"):
        return value["exc_message"][0]
    return value


def main_log(line: str) -> None:
    """Progress for a person who waits."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 -- a command's output


def _pause(seconds: float) -> None:
    """Time that passes between faults and between looks at results, whatever happens meanwhile."""
    threading.Event().wait(seconds)
