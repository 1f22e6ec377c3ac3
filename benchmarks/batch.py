"""1,000 sessions of mixed size, a fifth of them over budget, in one run of `ditto compress` in which the
command is killed -9 once and a worker twice; then, undisturbed, against one CONTEXT.COMPRESS task a session,
with interactive UPDATEs meanwhile.

Ceilings: 1,000 rows and each compression once; at least 2x the rate of one task a session; p95 of UPDATE
during a batch at most 2x of idle.

    python -m benchmarks.batch [SESSIONS]
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.batches import BUDGET, hash_of, operations_of, rows_in, seed, start_ditto
from support.fleet import Fleet

from ditto_tasks.batch.models import CompressRequest
from ditto_tasks.batch.opening import open_batch
from ditto_tasks.batch.running import open_run
from ditto_tasks.batch.selection import indexed_scopes

SESSIONS: Final = 1_000
SMALL: Final = (5, 30)  # items of the four fifths within budget
LARGE: Final = (40, 120)
RATE_FLOOR: Final = 2.0
LATENCY_CEILING: Final = 2.0
IDLE_CALLS: Final = 300
PAUSE_S: Final = 0.01  # between interactive calls: a person's, not a load test's
ROUNDS: Final = 3
QUIET_S: Final = 1.0  # after others' calls, until no worker tells a run of them

Check = tuple[str, float, bool]


def sizes_of(prefix: str, count: int, seed_number: int) -> dict[str, int]:
    """Sessions with their numbers of items, the same in every run."""
    draw = random.Random(seed_number)  # noqa: S311 -- sizes, no secrets
    return {f"{prefix}{n}": draw.randint(*(LARGE if n % 5 == 0 else SMALL)) for n in range(count)}


class Interactive:
    """UPDATEs of one user, one after another in a thread; their latencies in ms."""

    def __init__(self, fleet: Fleet, session: str) -> None:
        self._fleet = fleet
        self._scope = {"sessionId": session}
        self._stop = threading.Event()
        self.latencies: list[float] = []
        self._thread = threading.Thread(target=self._run)
        load = {"scope": self._scope, "sources": [item(number) for number in range(10)]}
        fleet.app.send_task("CONTEXT.LOAD", kwargs=load).get(timeout=60)

    def _run(self) -> None:
        while not self._stop.wait(PAUSE_S):
            self.latencies.append(self._call())

    def alone(self, calls: int) -> list[float]:
        """The latencies of so many calls, after a tenth more to warm up, while nothing else runs."""
        for _ in range(calls // 10 + calls):
            self._stop.wait(PAUSE_S)
            self.latencies.append(self._call())
        alone, self.latencies = self.latencies[-calls:], []
        return alone

    def _call(self) -> float:
        """One UPDATE, from sending to its receipt."""
        started = time.perf_counter()
        wire = {"scope": self._scope, "removeIds": ["item-3"], "add": [item(3)]}
        self._fleet.app.send_task("CONTEXT.UPDATE", kwargs=wire).get(timeout=60)
        return (time.perf_counter() - started) * 1000

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()


def item(number: int) -> dict[str, str]:
    return {"id": f"item-{number}", "content": "y" * 1_000}


def p95(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=20)[-1]


def command(prefix: str, folder: Path) -> tuple[list[str], Path]:
    """The arguments of a run over `prefix`, and its report."""
    report = folder / f"{prefix.rstrip(':')}.jsonl"
    run = ["--run", prefix.rstrip(":"), "--report", str(report)]
    return ["compress", "--match", prefix, "--max-items", str(BUDGET), *run], report


def killed_run(fleet: Fleet, sessions: int, folder: Path) -> list[Check]:
    """The run that suffers; returns what went wrong, counted."""
    sizes = sizes_of("kill:", sessions, 1)
    seed(fleet.state, sizes)
    arguments, report = command("kill:", folder)
    worker = fleet.start("k1")
    at = sorted(random.SystemRandom().uniform(0.1, 0.9) for _ in range(3))

    def reach(share: float) -> None:
        while fleet.broker.hlen("ditto:default:batch:kill") < share * sessions:
            time.sleep(0.01)

    with start_ditto(fleet.env, *arguments, cwd=folder) as process:
        reach(at[0])
        worker.kill()
        worker = fleet.start("k2")
        reach(at[1])
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    with start_ditto(fleet.env, *arguments, cwd=folder) as process:
        reach(at[2])
        worker.kill()
        worker = fleet.start("k3")
        process.communicate()
    worker.stop()
    rows = rows_in(report)
    over = [session for session, items in sizes.items() if items > BUDGET]
    once = sum(operations_of(fleet.state, session) == 1 for session in over)
    print(
        f"killed at {', '.join(f'{share:.0%}' for share in at)}: {len(rows)} rows, {once} of {len(over)} once"
    )
    complete = {row["scope"] for row in rows} == {hash_of(session) for session in sizes}
    return [
        ("rows of the killed run", len(rows), complete and len(rows) == sessions),
        ("sessions compressed once", once, once == len(over)),
    ]


def batch_s(fleet: Fleet, sizes: dict[str, int], name: str) -> float:
    """Seconds of a whole run, enumeration included, in this process as the other way is."""
    seed(fleet.state, sizes)
    time.sleep(QUIET_S)
    settings = fleet.app.settings
    with closing(open_batch(settings, {})) as batch:
        started = time.perf_counter()
        request = CompressRequest(match=f"{name}:", max_items=BUDGET)
        run = open_run(fleet.app, settings, batch.rows(name), name, request)
        run.add(indexed_scopes(batch.index(), request, ttl_ms=settings.context.cache.ttl_ms))
        rows = 0
        while not run.is_done:
            rows += len(run.turn())
    assert rows == len(sizes)
    return time.perf_counter() - started


def beside_s(fleet: Fleet, sizes: dict[str, int], name: str, user: Interactive, folder: Path) -> float:
    """Seconds from the first row to the end of `ditto compress`, while a user works.

    The command is a process of its own, as in life: in this one it would take turns with the user's thread.
    """
    seed(fleet.state, sizes)
    arguments, report = command(f"{name}:", folder)
    with start_ditto(fleet.env, *arguments, cwd=folder) as process:
        while not fleet.broker.hlen(f"ditto:default:batch:{name}"):
            time.sleep(0.001)
        started = time.perf_counter()
        with user:
            process.communicate()
        elapsed = time.perf_counter() - started
    assert len(rows_in(report)) == len(sizes)
    return elapsed


def tasks_s(fleet: Fleet, sizes: dict[str, int]) -> float:
    """Seconds for one CONTEXT.COMPRESS task a session, all sent at once."""
    seed(fleet.state, sizes)
    started = time.perf_counter()
    wires = ({"scope": {"sessionId": name}, "maxItems": BUDGET} for name in sizes)
    sent = [fleet.app.send_task("CONTEXT.COMPRESS", kwargs=wire) for wire in wires]
    for result in sent:
        result.get(timeout=300)
    return time.perf_counter() - started


def compared(fleet: Fleet, sessions: int, folder: Path) -> list[Check]:
    """Rates of both ways in turn, and latencies of a user while a batch runs and while nothing does."""
    ratios, slower = [], []
    for number in range(ROUNDS):
        user = Interactive(fleet, f"user:{number}")
        idle = user.alone(IDLE_CALLS)
        name = f"batch{number}"
        alone = tasks_s(fleet, sizes_of(f"task{number}:", sessions, 2))
        batch = batch_s(fleet, sizes_of(f"{name}:", sessions, 2), name)
        name = f"busy{number}"
        beside = beside_s(fleet, sizes_of(f"{name}:", sessions, 3), name, user, folder)
        busy = user.latencies
        ratios.append(alone / batch)
        slower.append(p95(busy) / p95(idle))
        print(f"one task a session {sessions / alone:.0f}/s; batch {sessions / batch:.0f}/s, ", end="")
        print(f"{sessions / beside:.0f}/s beside a user, whose UPDATE takes ", end="")
        print(f"p50 {statistics.median(busy):.1f} p95 {p95(busy):.1f} ms ({len(busy)} calls), ", end="")
        print(f"idle p50 {statistics.median(idle):.1f} p95 {p95(idle):.1f} ms")
    rate, latency = statistics.median(ratios), statistics.median(slower)
    return [
        ("rate against one task a session", rate, rate >= RATE_FLOOR),
        ("UPDATE p95 against idle", latency, latency <= LATENCY_CEILING),
    ]


def main() -> int:
    """Print all figures; 1 if one is beyond its ceiling."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    checks: list[Check] = []
    with TemporaryDirectory() as folder, Fleet(lease_ms=1_000, shards=64) as fleet:
        checks += killed_run(fleet, sessions, Path(folder))
        fleet.start("w1")
        fleet.start("w2")
        fleet.wait_balanced("w1", "w2")
        checks += compared(fleet, sessions, Path(folder))
    for name, figure, holds in checks:
        print(f"{name}: {figure:.2f} {'ok' if holds else 'MISSED'}")
    return 0 if all(holds for _, _, holds in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
