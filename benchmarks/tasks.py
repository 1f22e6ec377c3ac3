"""UPDATE replacing a 1 KB item in a fixed scope of ten, answered by a receipt, against a task that does
nothing on the same worker. Ceilings: p50 of send-and-wait at most 1.35x; drains at least 0.6x as fast.

    python -m benchmarks.tasks
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.workers import Deployment

ROUNDS: Final = 7
CALLS: Final = 200  # of each kind in a round; rounds take turns, so that noise falls on both
DRAINED: Final = 1_000
SCOPES: Final = 16  # of the drain: as many as a worker has threads
ITEM = "y" * 1_000
P50_CEILING: Final = 1.35
DRAIN_FLOOR: Final = 0.6

Send = Callable[[int], Any]  # a scope's number -> Celery's result


def update(deployment: Deployment) -> Send:
    """Send the measured UPDATE to one of the scopes."""
    scopes = [{"sessionId": f"bench-{number}"} for number in range(SCOPES)]
    items = [{"id": f"item-{number}", "content": "x" * 1_000} for number in range(10)]
    for scope in scopes:
        deployment.call("CONTEXT.LOAD", scope=scope, sources=items)
    added = [{"id": "item-3", "content": ITEM}]
    return lambda number: deployment.send("CONTEXT.UPDATE", scope=scopes[number % SCOPES], add=added)


def noop(deployment: Deployment) -> Send:
    """Send the same amount of data to nobody."""
    return lambda _number: deployment.app.send_task(
        "noop", kwargs={"add": [{"id": "item-3", "content": ITEM}]}
    )


def p50_ms(send: Send) -> float:
    """Median of send-and-wait on one scope; the first tenth warms up."""
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        send(0).get(timeout=20)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[CALLS // 10 :])


def drain_rate(send: Send) -> float:
    """Tasks a second from the first publish until the last result."""
    started = time.perf_counter()
    sent = [send(number) for number in range(DRAINED)]
    for result in sent:
        result.get(timeout=120)
    return DRAINED / (time.perf_counter() - started)


def ratio(name: str, measure: Callable[[Send], float], ours: Send, theirs: Send, rounds: int) -> float:
    """The median over rounds of ours to theirs, printed with the figures."""
    pairs = [(measure(ours), measure(theirs)) for _ in range(rounds)]
    print(f"{name}: update/noop", "  ".join(f"{a:.2f}/{b:.2f}" for a, b in pairs))
    return statistics.median(a / b for a, b in pairs)


def main() -> int:
    """1 if a ceiling was missed."""
    with Deployment(args=("--include", "support.noop"), log_level="INFO") as deployment:
        ours, theirs = update(deployment), noop(deployment)
        slower = ratio("p50, ms", p50_ms, ours, theirs, ROUNDS)
        drain = ratio("drain, tasks/s", drain_rate, ours, theirs, 3)
    print(f"p50 {slower:.2f}x (ceiling {P50_CEILING}x), drain {drain:.2f}x (floor {DRAIN_FLOOR}x)")
    return 0 if slower <= P50_CEILING and drain >= DRAIN_FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
