"""A cache in the memory of one process: least recently used goes first."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ditto_tasks.canonical import canonical_json
from ditto_tasks.infer.models import CacheKey
from ditto_tasks.json_values import JsonValue, freeze
from ditto_tasks.models import to_wire

MAX_ENTRIES = 1_000


@dataclass(frozen=True)
class _Entry:
    value: JsonValue
    expires_s: float | None
    tags: frozenset[str]
    namespace: str | None

    def is_live(self, now_s: float) -> bool:
        return self.expires_s is None or self.expires_s > now_s


class InMemoryInferCache:
    """At most ``max_entries`` entries; thread-safe. ``now`` is seconds on any steady clock."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, now: Callable[[], float] = time.monotonic) -> None:
        self._max_entries = max_entries
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()

    def lookup(self, key: CacheKey) -> tuple[bool, JsonValue]:
        """Return (True, value) of a live entry, which becomes the most recently used one."""
        name = cache_name(key)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or not entry.is_live(self._now()):
                self._entries.pop(name, None)
                return False, None
            self._entries.move_to_end(name)
            return True, entry.value

    def write(self, key: CacheKey, value: JsonValue, *, ttl_ms: int | None, tags: tuple[str, ...]) -> None:
        """Replace the entry; ``ttl_ms`` None keeps it until it is pushed out, 0 removes it."""
        name, now_s = cache_name(key), self._now()
        expires_s = None if ttl_ms is None else now_s + ttl_ms / 1000
        with self._lock:
            self._entries.pop(name, None)
            if ttl_ms == 0:
                return
            self._entries[name] = _Entry(freeze(value), expires_s, frozenset(tags), key.namespace)
            if len(self._entries) > self._max_entries:
                self._drop(lambda entry: not entry.is_live(now_s))
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)

    def invalidate(self, *, key: CacheKey | None, tag: str | None, namespace: str | None) -> int:
        """Remove the live entries that the one given selector names; return their number."""
        with self._lock:
            self._drop(lambda entry: not entry.is_live(self._now()))
            if key is not None:
                return 0 if self._entries.pop(cache_name(key), None) is None else 1
            if tag is not None:
                return self._drop(lambda entry: tag in entry.tags)
            return self._drop(lambda entry: entry.namespace == namespace)

    def _drop(self, doomed: Callable[[_Entry], bool]) -> int:
        names = [name for name, entry in self._entries.items() if doomed(entry)]
        for name in names:
            del self._entries[name]
        return len(names)


def cache_name(key: CacheKey) -> str:
    """Return one text for a key, the same for equal keys only."""
    return canonical_json(to_wire(key))
