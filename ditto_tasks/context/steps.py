"""One body of logic for sync and async callers.

A node is a generator that yields the calls it wants made to services and stores, and is sent their
answers. Whoever drives it decides whether a call may be awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
ServiceCall: TypeAlias = Callable[[], object]
Steps: TypeAlias = Generator[ServiceCall, object, T]


def drive(steps: Steps[T]) -> T:
    """Run to the end, making each call as it comes; what a call raises passes unchanged."""
    answer: object = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = call()
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("an async service needs AsyncContextNodes")


async def drive_async(steps: Steps[T]) -> T:
    """The same, awaiting what is awaitable."""
    answer: object = None
    while True:
        try:
            call = steps.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = call()
        if inspect.isawaitable(answer):
            answer = await answer
