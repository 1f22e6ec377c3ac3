"""Runs foreign code for a bounded time: what hangs is left behind, and only so many may be."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ditto_tasks.interaction.base import ActionCall, ToolError

T = TypeVar("T")
MAX_RUNNING: Final = 64  # actions that run or were left behind; more would slowly use up the process
POLL_S: Final = 0.05  # how late a cancellation may be noticed


class BoundedRunner:
    """Runs each action on a thread of its own. An abandoned one may still have its effect."""

    def __init__(self, max_running: int = MAX_RUNNING) -> None:
        self._places = threading.BoundedSemaphore(max_running)

    def run(self, work: Callable[[], T], call: ActionCall) -> T:
        """Return the work's result or raise its exception; past the call's limits raise and leave it."""
        if not self._places.acquire(blocking=False):
            raise ToolError("TOOL_UNAVAILABLE", "too many actions hang in this worker", retryable=True)
        outcome: list[T] = []
        failed: list[Exception] = []
        ended = threading.Event()

        def act() -> None:
            try:
                outcome.append(work())
            except Exception as error:  # noqa: BLE001 - handed to the caller, whatever it is
                failed.append(error)
            except BaseException:  # noqa: BLE001 - an exit that foreign code asks for is only its own
                failed.append(ToolError("TOOL_FAILED", "the action ended its thread"))
            finally:
                self._places.release()
                ended.set()

        threading.Thread(target=act, name="ditto-action", daemon=True).start()
        _wait(ended, call)
        if failed:
            raise failed[0]
        return outcome[0]


def _wait(ended: threading.Event, call: ActionCall) -> None:
    while not ended.wait(POLL_S):
        call.remaining_s()
