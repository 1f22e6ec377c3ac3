"""What INFER keeps in the broker's database: the cache of all workers, and events of running tasks."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from ditto_tasks.errors import InferError, StateBackendError
from ditto_tasks.infer.models import CacheKey
from ditto_tasks.infer.stores.memory import cache_name
from ditto_tasks.json_values import JsonObject, JsonValue, decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import ScriptClient, run_script
from ditto_tasks.models import Scope
from ditto_tasks.state.redis import translated_errors
from ditto_tasks.task_events import EVENTS_TTL_MS
from ditto_tasks.tenants import owner_key, owner_keys

_log = logging.getLogger(__name__)

EVENTS_KEPT: Final = 10_000  # more than a long answer has pieces
GATHER_S: Final = 0.05  # pieces of text closer together than this travel as one


class RedisClient(ScriptClient, Protocol):
    """The part of a Redis client that these stores need."""

    def hget(self, name: str, key: str) -> object: ...


class RedisInferCache:
    """Implements InferCache. Entries without a TTL stay until they are removed."""

    def __init__(self, client: RedisClient, *, deployment: str) -> None:
        self._client = client
        self._keys = Keys(deployment)

    def lookup(self, key: CacheKey) -> tuple[bool, JsonValue]:
        """One round trip."""
        with translated_errors():
            found = self._client.hget(self._entry(key), "value")
        return (False, None) if found is None else (True, decode(cast("bytes", found)))

    def write(self, key: CacheKey, value: JsonValue, *, ttl_ms: int | None, tags: tuple[str, ...]) -> None:
        """One round trip; see lua/write.lua."""
        indexes = [self._index("tag", tag) for tag in tags]
        if key.namespace is not None:
            indexes.append(self._index("namespace", key.namespace))
        owners = owners_of(key)
        indexes += [self._keys.cached("of", owner) for owner in owners]
        marks = [self._keys.erased(owner) for owner in owners]
        ttl = "" if ttl_ms is None else str(ttl_ms)
        if _run(self._client, "write", [self._entry(key), *indexes], encode(value), ttl, *marks) == -1:
            raise InferError("ERASED", "the session or tenant was erased; late writes are refused")

    def invalidate(self, *, key: CacheKey | None, tag: str | None, namespace: str | None) -> int:
        """One round trip; see lua/invalidate.lua."""
        if key is not None:
            return cast("int", _run(self._client, "invalidate", [self._entry(key)], "entry"))
        kind, name = ("tag", tag) if tag is not None else ("namespace", namespace)
        return cast("int", _run(self._client, "invalidate", [self._index(kind, name or "")], "index"))

    def _entry(self, key: CacheKey) -> str:
        return self._keys.cached("entry", _digest(cache_name(key)))

    def _index(self, kind: str, name: str) -> str:
        return self._keys.cached(kind, _digest(name))


def owners_of(key: CacheKey) -> list[str]:
    """Whose an entry is: the scope names a session or is called like one, and so is the namespace."""
    scope = key.scope.session_id if isinstance(key.scope, Scope) else key.scope
    sessions = [owner for name in (scope, key.namespace) for owner in owner_keys(name)]
    tenants = [owner_key("tenant", key.namespace)] if key.namespace else []
    return list(dict.fromkeys(sessions + tenants))


class TaskEvents:
    """Emits one task's events to its stream; pieces of text that come fast are joined.

    A server that can't be reached silences the stream: following a task must not break it. The end of a
    canvas by erasure silences it too; without a root the task is its own. With a ``step`` it is a run's
    stream, which gets the text that the step's model says, and nothing else of it.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        deployment: str,
        task_id: str,
        root_id: str | None = None,
        step: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        keys = Keys(deployment)
        self._where = [keys.events(task_id), keys.erased_root(root_id or task_id)]
        self._step = step
        self._now = now
        self._lock = threading.Lock()
        self._text: list[str] = []
        self._flushed_s = float("-inf")
        self._silent = False

    def __call__(self, event: JsonObject) -> None:
        """Send the event, or keep its text for a moment, in which more may come."""
        with self._lock:
            if event["type"] != "text_delta":
                self._flush()
                if self._step is None:
                    self._send(event)
                return
            self._text.append(str(event["text"]))
            if self._now() - self._flushed_s >= GATHER_S:
                self._flush()
            elif len(self._text) == 1:
                self._flush_soon()

    def _flush_soon(self) -> None:
        """A model may pause for long: what it said before is heard meanwhile."""
        timer = threading.Timer(GATHER_S, self._flush_kept)
        timer.daemon = True
        timer.start()

    def _flush_kept(self) -> None:
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if self._text:
            step: JsonObject = {} if self._step is None else {"step": self._step}
            self._send({"type": "text_delta", "text": "".join(self._text), **step})
            self._text.clear()
            self._flushed_s = self._now()

    def _send(self, event: JsonObject) -> None:
        if self._silent:
            return
        try:
            kept = (EVENTS_KEPT, EVENTS_TTL_MS)
            sent = _run(self._client, "emit", self._where, str(event["type"]), encode(event), *kept)
            self._silent = sent == 0
        except StateBackendError as error:
            self._silent = True
            _log.warning("the events of a task are not sent any more: %s", error.code)


def _run(client: RedisClient, script: str, keys: list[str], *args: str | bytes | int) -> object:
    """One of the scripts of this domain; its client's errors are typed."""
    with translated_errors():
        return run_script(client, "ditto_tasks.infer", script, keys, *args)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
