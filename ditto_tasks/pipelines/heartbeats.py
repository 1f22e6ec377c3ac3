"""Steps at work say so every few seconds, so that only lost ones are sent again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

BEAT_S: Final = 5.0  # a third of the quiet time after which a step counts as lost


class Heartbeats:
    """One thread for all steps of a process; it lives only while there are any."""

    def __init__(self, beat: Callable[[str], None], *, interval_s: float = BEAT_S) -> None:
        self._beat = beat
        self._interval_s = interval_s
        self._active: dict[int, str] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()  # never set; its wait is the pause between beats

    @contextmanager
    def during(self, pipeline: str) -> Iterator[None]:
        """Beat for a step of a pipeline as long as the block runs."""
        ticket = self._enter(pipeline)
        try:
            yield
        finally:
            self._leave(ticket)

    def _enter(self, pipeline: str) -> int:
        with self._lock:
            self._next += 1
            self._active[self._next] = pipeline
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="pipeline-heartbeats", daemon=True)
                self._thread.start()
            return self._next

    def _leave(self, ticket: int) -> None:
        with self._lock:
            del self._active[ticket]

    def _run(self) -> None:
        while pipelines := self._after_a_while():
            for pipeline in pipelines:
                try:
                    self._beat(pipeline)
                except Exception:  # noqa: BLE001, S112 -- a lost beat costs a second sending, which is harmless
                    continue

    def _after_a_while(self) -> set[str]:
        """Wait, and then say who is at work; nobody ends the thread, and the next step starts another."""
        self._pause.wait(self._interval_s)
        with self._lock:
            if not self._active:
                self._thread = None
            return set(self._active.values())
