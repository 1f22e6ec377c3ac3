"""Names and task ids of a pipeline's steps: both follow from the pipeline's id alone.

A second delivery, or a second sending, of a step therefore meets the id of the first one, and what
is keyed by it (the operation log, memory's operation ids, the pipeline's record) recognises it.
"""

from __future__ import annotations

import re
from typing import Final

from ditto_tasks.errors import PipelineError

LOAD: Final = "load"
SEARCH: Final = "search"  # numbered: search-0, search-1, …
UPDATE: Final = "update"
SELECT: Final = "select"
SAMPLE: Final = "sample"
TURN: Final = "turn"
REMEMBER: Final = "remember"


# the id of a task is made of it, for which 255 characters are let in; a colon divides the names of keys
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def check_run_id(run: str, path: str) -> str:
    """The id that a caller gave a pipeline or run, if it can be one; INVALID_INPUT at `path` otherwise."""
    if not _RUN_ID.fullmatch(run):
        raise PipelineError.invalid_input(
            path, "1 to 128 letters, digits, '_', '-' and '.', which is not first"
        )
    return run


def step_id(pipeline: str, step: str) -> str:
    """The task id of a step."""
    return f"{pipeline}.{step}"


def search_step(position: int) -> str:
    """The name of the search at this place of the header."""
    return f"{SEARCH}-{position}"


def is_search(step: str) -> bool:
    return step.startswith(f"{SEARCH}-")


def step_of(task_id: str | None, root_id: str | None) -> str | None:
    """The step that a task is, or None for a task outside of any pipeline."""
    if not task_id or not root_id or not task_id.startswith(f"{root_id}."):
        return None
    return task_id[len(root_id) + 1 :]


def turn_item_id(pipeline: str, role: str) -> str:
    """The id under which a pipeline stores the question (`user`) or the answer (`assistant`)."""
    return f"turn:{pipeline}:{role}"
