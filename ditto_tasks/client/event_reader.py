"""Where a reader of tasks' events stands. Pure: whoever reads asks the server, blocking or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ditto_tasks.client.protocol import Event
from ditto_tasks.client.streams import FIRST, Entries, events_of
from ditto_tasks.keys import Keys

JOINT: Final = "_"  # between the places in an event's id: a reader goes on in all its streams


class EventReader:
    """Reads the streams of some tasks as one: every event once, in the order of their time.

    An event's id holds the places up to which its reader has read; a reader that starts `after` it goes on.
    """

    def __init__(self, deployment: str, task_ids: Sequence[str], after: str = FIRST) -> None:
        keys = Keys(deployment)
        self._keys = [keys.events(task_id) for task_id in task_ids]
        self._places = [FIRST] * len(self._keys) if after == FIRST else after.split(JOINT)
        self._last = False
        self.finished = False

    def asking(self, *, ended: bool) -> Iterator[tuple[str, str]]:
        """Streams and places, of which XREAD takes a dict; `ended`: the tasks had ended before this."""
        self._last = ended
        return zip(self._keys, self._places, strict=True)

    def heard(self, entries: Entries | None) -> list[Event]:
        """The events of XREAD's answer. The reader is finished when the tasks have ended and it was empty."""
        at = {key.encode(): place for place, key in enumerate(self._keys)}
        found = [(at[stream[0]], event) for stream in entries or () for event in events_of([stream])]
        self.finished = self._last and not found
        return [self._moved(place, event) for place, event in sorted(found, key=lambda each: _time(each[1]))]

    def _moved(self, place: int, event: Event) -> Event:
        self._places[place] = event.id
        return event._replace(id=JOINT.join(self._places))


def _time(event: Event) -> tuple[int, int]:
    milliseconds, _, number = event.id.partition("-")
    return int(milliseconds), int(number)
