"""How many streams of events are open at once, and whose: each holds a connection to the broker."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from ditto_tasks.errors import DittoError


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What one process of the application lets its readers do."""

    per_process: int = 500
    per_tenant: int = 50
    longest_s: float = 900.0  # then the stream ends without `end`; its reader comes again and goes on


@dataclass(slots=True)
class OpenStream:
    """One reader's place, to be left once, by whoever notices first that the reader is gone."""

    streams: OpenStreams
    tenant: str
    is_open: bool = True

    def leave(self) -> None:
        """Give the place back; safe to call again."""
        self.streams.left(self)


@dataclass(slots=True)
class OpenStreams:
    """The streams of a process. Safe in several threads: an application may have several loops."""

    limits: StreamLimits
    _tenants: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, tenant: str) -> OpenStream:
        """A place for one more reader; DittoError where there is none."""
        with self._lock:
            if self._tenants[tenant] >= self.limits.per_tenant:
                raise DittoError(
                    "TOO_MANY_STREAMS", "the tenant has as many streams of events as it may have"
                )
            if self._tenants.total() >= self.limits.per_process:
                raise DittoError("STREAMS_EXHAUSTED", "this server has as many streams of events as it takes")
            self._tenants[tenant] += 1
        return OpenStream(self, tenant)

    def left(self, stream: OpenStream) -> None:
        """Take a reader's place back, once."""
        with self._lock:
            if stream.is_open:
                stream.is_open = False
                self._tenants[stream.tenant] -= 1
                self._tenants += Counter()  # tenants without a stream are forgotten
