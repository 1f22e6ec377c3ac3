"""Following a task: its own events, the text of the step at work if it is a pipeline, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ditto_tasks.client import AsyncDitto, Event
from ditto_tasks.client.protocol import Finished
from ditto_tasks.client.streams import told_in

STREAMS = 2  # the task's own, and that of the step in which a pipeline's model speaks


async def follow(
    client: AsyncDitto, task_id: str, after: str, longest_s: float
) -> AsyncGenerator[Event | Finished, None]:
    """The events after this one and then the end; without the end where `longest_s` is over before it."""
    loop = asyncio.get_running_loop()
    until = loop.time() + longest_s
    ended = asyncio.ensure_future(client.ended(task_id))
    try:
        reading = client.stream(told_in(task_id), after, lambda: ended.done() or loop.time() >= until)
        async with aclosing(reading) as heard:
            async for event in heard:
                yield event
                if loop.time() >= until:  # whoever says something all the time is not waited for either
                    return
        if ended.done():
            yield ended.result()
    finally:
        ended.cancel()
