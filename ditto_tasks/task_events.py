"""How long the streams last in which running tasks and pipelines say what they do."""

from typing import Final

EVENTS_TTL_MS: Final = 600_000  # how long after its last event a task can still be followed
