"""`import ditto_tasks` with its Celery application against importing celery, kombu and pydantic, in one run.

    python -m benchmarks.imports

The ceiling is 1.3x. Both sides are fresh processes, alternating; an empty process is subtracted from neither.
"""

import statistics
import subprocess
import sys
import time

ROUNDS = 15
CEILING = 1.3
OURS = "import ditto_tasks"
APPLICATION = "import ditto_tasks.celery"
THEIRS = "import celery, kombu, pydantic; celery.Celery, kombu.Connection, pydantic.BaseModel"


def seconds(statement: str) -> float:
    """Time of one process that runs `statement` and ends."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print medians and ratios; 1 if the ceiling was missed."""
    for statement in (OURS, APPLICATION, THEIRS):
        seconds(statement)  # byte code is compiled and files are cached
    taken: dict[str, list[float]] = {statement: [] for statement in (OURS, APPLICATION, THEIRS)}
    for _ in range(ROUNDS):
        for statement, times in taken.items():
            times.append(seconds(statement))
    medians = {statement: statistics.median(times) for statement, times in taken.items()}
    ratio = medians[OURS] / medians[THEIRS]
    for statement, median in medians.items():
        print(f"{median * 1000:7.1f} ms  {median / medians[THEIRS]:5.2f}x  {statement}")
    print(f"import ditto_tasks: {ratio:.2f}x, ceiling {CEILING}x: {'met' if ratio <= CEILING else 'MISSED'}")
    return 0 if ratio <= CEILING else 1


if __name__ == "__main__":
    sys.exit(main())
