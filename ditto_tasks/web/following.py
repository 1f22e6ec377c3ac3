"""Following a task: its own events, and the text of the step at work if it is a pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import cast

from ditto_tasks.client import AsyncDitto, Event
from ditto_tasks.client.connections import open_async
from ditto_tasks.client.protocol import Finished
from ditto_tasks.client.streams import BLOCK_MS, Entries, events_key, events_of
from ditto_tasks.pipelines import steps

STREAMS = 2  # the task's own, and that of the step in which a pipeline's model speaks
JOINT = "_"  # between the positions in an event's id: a reader goes on in both streams


async def follow(client: AsyncDitto, task_id: str, after: Sequence[str]) -> AsyncGenerator[Event, None]:
    """The events after these positions; ends when the task has ended and nothing more comes."""
    ended = asyncio.ensure_future(client.ended(task_id))
    try:
        async with aclosing(_read(client, task_id, list(after), ended)) as heard:
            async for event in heard:
                yield event
    finally:
        ended.cancel()


async def _read(
    client: AsyncDitto, task_id: str, after: list[str], ended: asyncio.Future[Finished]
) -> AsyncGenerator[Event, None]:
    url, deployment = await client.in_order(lambda: _broker(client))
    names = [events_key(deployment, each) for each in (task_id, steps.step_id(task_id, steps.SAMPLE))]
    connection = open_async(url, connections=1)
    try:
        while True:
            last = ended.done()
            found = await connection.xread(dict(zip(names, after, strict=True)), block=BLOCK_MS)
            heard = list(_placed(cast("Entries | None", found), names, after))
            for event in heard:
                yield event
            if last and not heard:
                return
    finally:
        await connection.aclose()


def _placed(entries: Entries | None, names: Sequence[str], after: list[str]) -> Sequence[Event]:
    """Events in the order of their time, each with the positions up to which a reader has then read."""
    at = {name.encode(): place for place, name in enumerate(names)}
    heard = [(at[stream[0]], event) for stream in entries or () for event in events_of([stream])]
    placed = []
    for place, event in sorted(heard, key=lambda each: _time(each[1].id)):
        after[place] = event.id
        placed.append(event._replace(id=JOINT.join(after)))
    return placed


def _time(event_id: str) -> tuple[int, int]:
    milliseconds, _, number = event_id.partition("-")
    return int(milliseconds), int(number)


def _broker(client: AsyncDitto) -> tuple[str, str]:
    app = client.blocking.app
    return str(app.conf.broker_url), app.settings.connections.deployment
