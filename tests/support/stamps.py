"""An extension that writes down when tasks start: one line a task, its id and the clock."""

import os
import time
from pathlib import Path
from typing import Any

from celery import signals

from ditto_tasks.extensions import Extension
from ditto_tasks.settings import Settings

FACTORY = "support.stamps:open_stamps"
VARIABLE = "SHARDS_BENCH_STAMPS"


def open_stamps(_settings: Settings) -> Extension:
    """For DITTO_EXTENSIONS; the variable names the file."""
    file = Path(os.environ[VARIABLE]).open("a", buffering=1)  # noqa: SIM115 -- open as long as the worker lives

    def note(task_id: str = "", **_about: Any) -> None:
        file.write(f"{task_id} {time.time()!r}\n")

    signals.task_prerun.connect(note, weak=False)
    return Extension(close=file.close)
