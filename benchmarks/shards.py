"""Shards against stock queues: the same tasks, the same pool, one worker process on this machine.

Ceilings: drains at least 2x as fast as stock consumption; p50 from publish to start at most 1.0x of
stock; idle with 64 shards at most 2 % of a core; takeover after kill -9 at most 1.34 leases + 0.5 s;
a warm stop hands over within 1 s. Printed only: 1,000 scopes over 1, 2 and 4 processes.

    python -m benchmarks.shards [--tasks N] [--rounds N]
"""

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.fleet import RESULT_KEY, Fleet
from support.polling import eventually
from support.stamps import FACTORY, VARIABLE

from ditto_tasks.sharding import shard_queue

DRAIN_FLOOR = 2.0
START_CEILING = 1.0
IDLE_CEILING = 0.02
LEASE_S = 1.0
TAKEOVER_CEILING_S = 1.34 * LEASE_S + 0.5
HANDOVER_CEILING_S = 1.0
STOCK = "ditto.context"
SCOPES = 1_000
LONG_S = 300.0


def main() -> int:
    """Measure all; 1 if a ceiling was missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--takeovers", type=int, default=5)
    given = parser.parse_args()
    met = [
        drain(given.tasks, given.rounds),
        start(given.rounds),
        idle(),
        takeover(given.takeovers),
        handover(),
    ]
    scale(given.tasks)
    return 0 if all(met) else 1


def verdict(name: str, value: str, *, met: bool) -> bool:
    """Print one line; whether the ceiling was met."""
    print(f"{name:42}{value:32}{'met' if met else 'MISSED'}", flush=True)
    return met


def drain(tasks: int, rounds: int) -> bool:
    """Work off a full queue: through shards, and the same messages through a stock queue."""
    rates: dict[str, list[float]] = {"shards": [], "stock": []}
    for turn in range(rounds):
        for way, measured in rates.items():
            with deployment() as fleet:
                fill(fleet, f"{way}-{turn}", tasks, stock=way == "stock")
                measured.append(drain_rate(fleet, tasks, workers=1))
    shards, stock = (statistics.median(measured) for measured in rates.values())
    shown = f"{shards:.0f}/s against {stock:.0f}/s: {shards / stock:.2f}x"
    return verdict("drain of scoped mutations", shown, met=shards / stock >= DRAIN_FLOOR)


def fill(fleet: Fleet, name: str, tasks: int, *, stock: bool) -> None:
    """Send mutations of many scopes; for stock consumption, move them to an ordinary queue."""
    for number in range(tasks):
        item = {"id": str(number // SCOPES), "content": "x"}
        fleet.send(f"{name}-{number % SCOPES}", f"{name}-{number}", add=[item])
    for shard in range(fleet.shards if stock else 0):
        while fleet.broker.lmove(shard_queue(shard), STOCK, "RIGHT", "LEFT"):
            pass


def drain_rate(fleet: Fleet, tasks: int, *, workers: int) -> float:
    """Tasks a second from the first result until the last."""
    running = [fleet.start(f"w{number}") for number in range(workers)]
    eventually(lambda: finished(fleet) > tasks * 0.05, LONG_S)
    first, since = finished(fleet), time.perf_counter()
    eventually(lambda: finished(fleet) >= tasks, LONG_S)
    rate = (tasks - first) / (time.perf_counter() - since)
    for worker in running:
        worker.stop()
    return rate


def finished(fleet: Fleet) -> int:
    """How many results are stored, started tasks among them (at most one a thread)."""
    return int(fleet.results.dbsize())


@contextmanager
def deployment(*, lease_ms: int = 5_000) -> Iterator[Fleet]:
    """Production's number of shards; workers that note when tasks start."""
    with Fleet(lease_ms=lease_ms, shards=64) as fleet:
        fleet.env[VARIABLE] = str(fleet.folder / "stamps")
        fleet.env["DITTO_EXTENSIONS"] = f"{fleet.env['DITTO_EXTENSIONS']},{FACTORY}"
        yield fleet


def start(rounds: int) -> bool:
    """One call at a time, from before its publish until a thread picks it up."""
    waits: dict[str, list[float]] = {"shards": [], "stock": []}
    with deployment() as fleet:
        fleet.start()
        for turn in range(rounds):
            for way in waits:
                sent = {}
                for number in range(100):
                    task_id = f"start-{way}-{turn}-{number}"
                    sent[task_id] = time.time()
                    if way == "shards":
                        fleet.send(f"start-{number % 20}", task_id, "CONTEXT.LOAD", sources=[])
                    else:
                        fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id=task_id)
                    eventually(lambda task_id=task_id: fleet.results.exists(RESULT_KEY + task_id), LONG_S)
                waits[way] += started_after(fleet, sent)
    shards, stock = (statistics.median(measured) * 1000 for measured in waits.values())
    shown = f"{shards:.2f} ms against {stock:.2f} ms: {shards / stock:.2f}x"
    return verdict("p50 from publish to start", shown, met=shards / stock <= START_CEILING)


def started_after(fleet: Fleet, sent: dict[str, float]) -> list[float]:
    """Seconds from publish to start, by task."""
    lines = (fleet.folder / "stamps").read_text().splitlines()
    stamps = dict(line.split() for line in lines)
    return [float(stamps[task_id]) - when for task_id, when in sent.items() if task_id in stamps]


def idle(seconds: float = 15.0) -> bool:
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


def scale(tasks: int) -> None:
    """The same work by more processes; on a machine of two cores, four share them."""
    for workers in (1, 2, 4):
        with deployment() as fleet:
            fill(fleet, f"scale-{workers}", tasks, stock=False)
            print(
                f"{SCOPES} scopes, {workers} processes: {drain_rate(fleet, tasks, workers=workers):.0f}/s",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
