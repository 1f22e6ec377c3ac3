"""At most so many entry calls of a domain at a time in one process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL_S = 0.05  # how late a waiting call notices that it is cancelled or out of time


class EntryLimit:
    """Lets ``concurrency`` calls in at a time; None lets all in."""

    def __init__(self, concurrency: int | None = None) -> None:
        self._places = None if concurrency is None else threading.BoundedSemaphore(concurrency)

    @contextmanager
    def entered(self, check: Callable[[], object]) -> Iterator[None]:
        """Wait for a place. ``check`` raises when the call should not wait any longer, and is true when it
        goes on without one, since it will begin nothing.
        """
        if self._places is None:
            yield
            return
        while not self._places.acquire(timeout=POLL_S):
            if check():
                yield
                return
        try:
            yield
        finally:
            self._places.release()
