"""One body of logic for sync and async callers.

A node is a generator that yields the calls it wants made to services and stores, and is sent their
answers. Whoever drives it decides whether a call may be awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.models import Context

T = TypeVar("T")
ServiceCall: TypeAlias = Callable[[], object]
Steps: TypeAlias = Generator[ServiceCall, object, T]


@runtime_checkable
class SteppedSelector(Protocol):
    """A selector of this package: the services that it calls itself may be sync or async."""

    def steps(self, request: SelectInput, execution: ContextExecution) -> Steps[object]:
        """What `select` does, as steps."""


@runtime_checkable
class SteppedCompressor(Protocol):
    """A compressor of this package: the services that it calls itself may be sync or async."""

    def steps(self, request: CompressInput, execution: ContextExecution) -> Steps[Context]:
        """What `compress` does, as steps."""


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
