"""Where running tasks and pipelines say what they do: a capped stream each, in the broker's database."""

from typing import Final

from ditto_tasks.keys import Keys

EVENTS_TTL_MS: Final = 600_000  # how long after its last event a task can still be followed


def events_key(deployment: str, task_id: str) -> str:
    """The stream of a task or pipeline."""
    return Keys(deployment).events(task_id)
