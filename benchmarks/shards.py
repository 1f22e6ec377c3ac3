"""Shards against stock queues: the same tasks, the same pool, one worker process on this machine.

"Stock" is plain Celery over the same task classes: kombu's channels, Celery's consumer, results and STARTED
(tests/support/stock_app.py). "Ours, stock queue" is our worker on an ordinary queue, printed beside it.

Ceilings: drains at least 2x as fast as stock consumption; p50 from publish to start at most 1.0x of
stock; idle with 64 shards at most 2 % of a core; takeover after kill -9 at most 1.34 leases + 0.5 s;
a warm stop hands over within 1 s. Printed only: 1,000 scopes over 1, 2 and 4 processes.

What is compared takes turns, and ratios are taken within a round, so that other load on the machine
cancels out. The default takes less than 3 minutes; figures worth quoting come from more of everything.
Workers are started as Celery's documentation starts them: 16 threads, log level INFO, no task events.

    python -m benchmarks.shards [--tasks N] [--rounds N] [--takeovers N]
"""

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.fleet import Fleet
from support.polling import eventually
from support.stamps import FACTORY, VARIABLE
from support.stock_app import NAME as STOCK_APP

from ditto_tasks.sharding import shard_queue

DRAIN_FLOOR = 2.0
START_CEILING = 1.0
IDLE_CEILING = 0.02
LEASE_S = 1.0
TAKEOVER_CEILING_S = 1.34 * LEASE_S + 0.5
HANDOVER_CEILING_S = 1.0
STOCK = "ditto.context"
WAYS = {"shards": "ditto_tasks", "stock": STOCK_APP, "ours, stock queue": "ditto_tasks"}  # each by its worker
SCOPES = 1_000
LONG_S = 300.0


def main() -> int:
    """Measure all; 1 if a ceiling was missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--takeovers", type=int, default=3)
    given = parser.parse_args()
    met = [
        drain(given.tasks, given.rounds),
        start(given.rounds),
        idle(),
        takeover(given.takeovers),
        handover(),
    ]
    scale(given.tasks, given.rounds // 2)
    return 0 if all(met) else 1


def verdict(name: str, value: str, *, met: bool) -> bool:
    """Print one line; whether the ceiling was met."""
    print(f"{name:42}{value:32}{'met' if met else 'MISSED'}", flush=True)
    return met


def drain(tasks: int, rounds: int) -> bool:
    """Work off a full queue: through shards, and the same messages through a stock queue."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    costs: dict[str, list[float]] = {way: [] for way in WAYS}
    conflicts = dict.fromkeys(WAYS, 0)
    for turn in range(rounds):
        for way, measured in rates.items():
            with deployment() as fleet:
                fill(fleet, f"{way}-{turn}", tasks, stock=way != "shards")
                rate, cost_ms = drained(fleet, tasks, app=WAYS[way])
                conflicts[way] += check_outcomes(fleet, conflicts_allowed=way != "shards")
            measured.append(rate)
            costs[way].append(cost_ms)
    shards, stock, ordinary = (statistics.median(measured) for measured in rates.values())
    cost, stock_cost, ordinary_cost = (statistics.median(measured) for measured in costs.values())
    print(f"{'':42}{cost:.2f} ms of CPU a task against {stock_cost:.2f} ms", flush=True)
    print(f"{'':42}ours, stock queue: {ordinary:.0f}/s, {ordinary_cost:.2f} ms", flush=True)
    failed = ", ".join(f"{way} {count}" for way, count in conflicts.items())
    print(f"{'':42}failed by conflicts, of {tasks * rounds} each: {failed}", flush=True)
    ratio = ratio_of_rounds(rates["shards"], rates["stock"])
    shown = f"{shards:.0f}/s against {stock:.0f}/s: {ratio:.2f}x"
    return verdict("drain of scoped mutations", shown, met=ratio >= DRAIN_FLOOR)


def ratio_of_rounds(ours: Sequence[float], others: Sequence[float]) -> float:
    """The median over rounds, in each of which both met the same load."""
    return statistics.median(mine / theirs for mine, theirs in zip(ours, others, strict=True))


def fill(fleet: Fleet, name: str, tasks: int, *, stock: bool) -> None:
    """Send mutations of many scopes; for stock consumption, move them to an ordinary queue."""
    for number in range(tasks):
        item = {"id": str(number // SCOPES), "content": "x"}
        fleet.send(f"{name}-{number % SCOPES}", f"{name}-{number}", add=[item])
    for shard in range(fleet.shards if stock else 0):
        while fleet.broker.lmove(shard_queue(shard), STOCK, "RIGHT", "LEFT"):
            pass


def drained(fleet: Fleet, tasks: int, *, app: str) -> tuple[float, float]:
    """Tasks a second, and CPU ms a task, between the first tenth and the last result."""
    worker = fleet.worker(app=app).start()
    eventually(lambda: finished(fleet) > tasks * 0.1, LONG_S)
    first, since, cpu = finished(fleet), time.perf_counter(), cpu_s(worker.pid)
    eventually(lambda: finished(fleet) >= tasks, LONG_S)
    done = tasks - first
    rate = done / (time.perf_counter() - since)
    cost_ms = (cpu_s(worker.pid) - cpu) / done * 1000
    worker.stop()
    return rate, cost_ms


def check_outcomes(fleet: Fleet, *, conflicts_allowed: bool) -> int:
    """How many mutations failed in a stock queue as two of a scope ran at once; other failures end this."""
    keys = list(fleet.results.scan_iter(count=1_000))
    failed = [raw for raw in fleet.results.mget(keys) if b'"SUCCESS"' not in raw]
    conflicts = sum(b"STATE_CONFLICT" in raw for raw in failed) if conflicts_allowed else 0
    assert len(failed) == conflicts, f"{len(failed) - conflicts} tasks failed, so that this measured nothing"
    return conflicts


def finished(fleet: Fleet) -> int:
    """How many results are stored, started tasks among them (at most one a thread)."""
    return int(fleet.results.dbsize())


@contextmanager
def deployment(*, lease_ms: int = 5_000) -> Iterator[Fleet]:
    """Production's number of shards."""
    with Fleet(lease_ms=lease_ms, shards=64, events=False) as fleet:
        yield fleet


def start(rounds: int) -> bool:
    """One message at a time, from its LPUSH until a thread picks its task up."""
    waits: dict[str, list[float]] = {"shards": [], "stock": []}
    with deployment() as fleet:
        fleet.env[VARIABLE] = str(fleet.folder / "stamps")  # where workers note when tasks start
        fleet.env["DITTO_EXTENSIONS"] = f"{fleet.env['DITTO_EXTENSIONS']},{FACTORY}"
        fleet.send("start", "template", "CONTEXT.LOAD", sources=[])
        shard = shard_queue(fleet.shard("start"))
        template = fleet.broker.rpop(shard).decode()
        fleet.start()
        fleet.wait_balanced("w1")
        for turn in range(rounds):
            for way, queue in (("shards", shard), ("stock", STOCK)):
                sent = push_one_by_one(fleet, queue, template, f"{way}-{turn}")
                waits[way].append(statistics.median(started_after(fleet, sent)))
    shards, stock = (statistics.median(measured) * 1000 for measured in waits.values())
    ratio = ratio_of_rounds(*waits.values())
    shown = f"{shards:.2f} ms against {stock:.2f} ms: {ratio:.2f}x"
    return verdict("p50 from publish to start", shown, met=ratio <= START_CEILING)


def push_one_by_one(fleet: Fleet, queue: str, template: str, name: str) -> dict[str, float]:
    """When each message was pushed, by task id; each waits for the result of the one before."""
    sent = {}
    for number in range(100):
        task_id = f"{name}-{number}"
        message = template.replace('"id": "template"', f'"id": "{task_id}"')
        sent[task_id] = time.time()
        fleet.broker.lpush(queue, message)
        eventually(lambda task_id=task_id: fleet.stored(task_id), LONG_S)
    return sent


def started_after(fleet: Fleet, sent: dict[str, float]) -> list[float]:
    """Seconds from publish to start, by task."""
    lines = (fleet.folder / "stamps").read_text().splitlines()
    stamps = dict(line.split() for line in lines)
    return [float(stamps[task_id]) - when for task_id, when in sent.items() if task_id in stamps]


def idle(seconds: float = 10.0) -> bool:
    """CPU time of a worker that holds 64 shards in which nothing happens."""
    with deployment() as fleet:
        worker = fleet.start()
        fleet.wait_balanced("w1")
        before, since = cpu_s(worker.pid), time.perf_counter()
        time.sleep(seconds)
        share = (cpu_s(worker.pid) - before) / (time.perf_counter() - since)
    return verdict("idle with 64 shards", f"{share:.1%} of a core", met=share <= IDLE_CEILING)


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def takeover(times: int) -> bool:
    """From kill -9 until another worker has run what the dead one had in work and what waited behind."""
    waits = []
    with deployment(lease_ms=int(LEASE_S * 1000)) as fleet:
        fleet.start("heir")
        for number in range(times):
            victim = fleet.start(f"victim{number}")
            fleet.wait_balanced("heir", f"victim{number}")
            session = fleet.session_of(f"victim{number}")
            gate = fleet.folder / f"gate{number}"
            fleet.suffer(session, f"takeover-{number}", f"until:{gate}")
            eventually(Path(f"{gate}.started").exists, LONG_S)
            gate.touch()
            since = time.perf_counter()
            victim.kill()
            fleet.receipt(f"takeover-{number}")
            waits.append(time.perf_counter() - since)
    p95 = percentile(waits, 0.95)
    shown = f"median {statistics.median(waits):.2f} s, p95 {p95:.2f} s of {len(waits)}"
    return verdict(f"takeover at a lease of {LEASE_S:g} s", shown, met=p95 <= TAKEOVER_CEILING_S)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the others does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def handover() -> bool:
    """From a warm stop's signal until another worker holds every shard."""
    with deployment() as fleet:
        leaving = fleet.start("leaving")
        fleet.start("heir")
        fleet.wait_balanced("leaving", "heir")
        since = time.perf_counter()
        os.kill(leaving.pid, signal.SIGTERM)
        fleet.wait_balanced("heir")
        taken = time.perf_counter() - since
    return verdict("warm stop hands all shards over", f"{taken:.2f} s", met=taken <= HANDOVER_CEILING_S)


def scale(tasks: int, rounds: int) -> None:
    """The same work by more processes; on a machine of two cores, four share them."""
    rates: dict[int, list[float]] = {1: [], 2: [], 4: []}
    for turn in range(max(1, rounds)):
        for workers, measured in rates.items():
            with deployment() as fleet:
                fill(fleet, f"scale-{workers}-{turn}", tasks, stock=False)
                measured.append(shared(fleet, tasks, workers))
    for workers, measured in rates.items():
        shown = f"{statistics.median(measured):.0f}/s, {ratio_of_rounds(measured, rates[1]):.2f}x"
        print(f"{SCOPES} scopes, {workers} processes: {shown}", flush=True)


def shared(fleet: Fleet, tasks: int, workers: int) -> float:
    """Tasks a second of workers that all run when the full queues appear."""
    queues = [queue for queue in map(shard_queue, range(fleet.shards)) if fleet.broker.exists(queue)]
    for queue in queues:
        fleet.broker.rename(queue, f"aside:{queue}")
    names = [f"w{number}" for number in range(workers)]
    with ThreadPoolExecutor() as threads:
        running = list(threads.map(fleet.start, names))
    fleet.wait_balanced(*names)
    since = time.perf_counter()
    for queue in queues:
        fleet.broker.rename(f"aside:{queue}", queue)
    eventually(lambda: finished(fleet) >= tasks, LONG_S)
    rate = tasks / (time.perf_counter() - since)
    for worker in running:
        worker.stop()
    return rate


if __name__ == "__main__":
    sys.exit(main())
