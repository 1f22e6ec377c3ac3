"""Waiting in slices, so that Ctrl-C and the end of a child process end the wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from ditto_tasks.cli.children import Children, StopRequest
from ditto_tasks.client.sync import Pending

R = TypeVar("R")

LOG_CHARACTERS: Final = 4_000  # of a log that explains a failure
SLICE_S: Final = 0.2  # how late Ctrl-C is noticed


class StoppedError(Exception):
    """Ctrl-C, or a SIGTERM."""


class Patience:
    """Waits for results and conditions, as long as there is use in it."""

    def __init__(self, stop_request: StopRequest, children: Children, logs: Path) -> None:
        self._stop_request = stop_request
        self._children = children
        self._logs = logs

    def until(self, ready: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return once `ready`; ClickException after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check(what, deadline)
            time.sleep(SLICE_S / 4)

    def result(self, pending: Pending[R], what: str, timeout_s: float) -> R:
        """The result of a task, or its typed error."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return pending.get(SLICE_S)
            except TimeoutError:
                self.check(what, deadline)

    def check(self, what: str, deadline: float) -> None:
        """Raise if there is no use in waiting on."""
        if self._stop_request.event.is_set():
            raise StoppedError
        if (name := self._children.ended()) is not None:
            log = (self._logs / f"{name}.log").read_text("utf-8", "replace")
            raise click.ClickException(f"the {name} process ended by itself:\n{log[-LOG_CHARACTERS:]}")
        if time.monotonic() > deadline:
            raise click.ClickException(f"{what}: not within the time for it")
