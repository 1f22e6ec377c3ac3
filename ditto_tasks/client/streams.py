"""Progress and text of running tasks: a capped stream a task in the broker's database. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from ditto_tasks.client.protocol import Event
from ditto_tasks.json_values import decode
from ditto_tasks.pipelines import steps

BLOCK_MS: Final = 500  # how long a reader waits before it asks whether the task has ended
FIRST: Final = "0"

Entries: TypeAlias = Sequence[tuple[bytes, Sequence[tuple[bytes, dict[bytes, bytes]]]]]


def told_in(task_id: str) -> list[str]:
    """Whose streams say what a task does: its own, and that of the step in which its model speaks."""
    return [task_id, steps.step_id(task_id, steps.SAMPLE)]


def events_of(entries: Entries | None) -> list[Event]:
    """What XREAD of one stream answered, as events."""
    return [
        Event(entry.decode(), fields[b"type"].decode(), decode(fields[b"data"]))
        for _, stream in entries or ()
        for entry, fields in stream
    ]
