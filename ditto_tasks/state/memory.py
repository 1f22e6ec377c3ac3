"""The store in this process's memory: for tests, and for contexts that need not outlive the process."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from ditto_tasks.cancellation import CancelToken, checkpoint
from ditto_tasks.canonical import scope_key
from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.models import Scope
from ditto_tasks.state.base import Operation, Outcome, StoredContext
from ditto_tasks.state.limits import check_expected_version, check_operation_ids, check_positive, check_ttl_ms
from ditto_tasks.state.operations import OPERATIONS_KEPT, conflict, fenced, log_ttl_ms, mismatch

TTL_MS: Final = 3_600_000
MAX_ENTRIES: Final = 1_000


@dataclass(slots=True)
class _Entry:
    stored: StoredContext
    expires_ms: float


class _Log:
    """What is known of the operations of one scope."""

    def __init__(self) -> None:
        self.epoch = 0
        self.expires_ms = 0.0
        self.outcomes: OrderedDict[str, tuple[str, Outcome]] = OrderedDict()


class InMemoryContextStore:
    """`ContextStateStore` and `OperationLog`; least recently used entries go when it is full.

    A state lives for `ttl_ms` after its last write; `operation_ids` outcomes are kept for a scope. `now`
    gives milliseconds on any clock. There are no timers: what is dead is dropped when met.
    """

    def __init__(
        self,
        *,
        ttl_ms: int = TTL_MS,
        max_entries: int = MAX_ENTRIES,
        now: Callable[[], float] = lambda: time.time() * 1000,
        operation_ids: int = OPERATIONS_KEPT,
    ) -> None:
        self._ttl_ms = check_ttl_ms(ttl_ms)
        self._max_entries = check_positive(max_entries, "maxEntries")
        self._operation_ids = check_operation_ids(operation_ids)
        self._now = now
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._logs: OrderedDict[str, _Log] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        checkpoint(call)
        key = scope_key(scope)
        with self._lock:
            entry = self._living(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.stored

    def compare_and_set(
        self,
        scope: Scope,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- the name that the port has in every runtime
        call: CancelToken | None = None,
    ) -> StoredContext:
        checkpoint(call)
        key = scope_key(scope)
        check_expected_version(expected_version)
        context = parse_context(next)
        with self._lock:
            current = self._version(key)
            if current != expected_version:
                raise conflict(current)
            return self._write(key, context)

    def recall(self, scope: Scope, operation: Operation) -> Outcome | None:
        key = scope_key(scope)
        with self._lock:
            return self._recorded(key, operation)

    def commit(
        self,
        scope: Scope,
        operation: Operation,
        *,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- as in compare_and_set
    ) -> Outcome:
        with self._lock:
            known = self._known_or_fenced(scope_key(scope), operation)
            if known is not None:
                return known
            stored = self.compare_and_set(scope, expected_version, next)
            return self._record(scope_key(scope), operation, Outcome(version=stored.version))

    def refuse(self, scope: Scope, operation: Operation, *, code: str) -> Outcome:
        key = scope_key(scope)
        with self._lock:
            known = self._known_or_fenced(key, operation)
            return known if known is not None else self._record(key, operation, Outcome(code=code))

    def _living(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires_ms <= self._now():
            del self._entries[key]
            return None
        return entry

    def _version(self, key: str) -> str | None:
        entry = self._living(key)
        return entry.stored.version if entry else None

    def _write(self, key: str, context: Context) -> StoredContext:
        now = self._now()
        stored = StoredContext(str(uuid4()), context)
        self._entries.pop(key, None)
        if len(self._entries) >= self._max_entries:
            self._make_room(now)
        self._entries[key] = _Entry(stored, now + self._ttl_ms)
        return stored

    def _make_room(self, now: float) -> None:
        for key in [key for key, entry in self._entries.items() if entry.expires_ms <= now]:
            del self._entries[key]
        if len(self._entries) >= self._max_entries:
            self._entries.popitem(last=False)

    def _log(self, key: str) -> _Log:
        log = self._logs.get(key)
        if log is None or log.expires_ms <= self._now():
            return _Log()
        return log

    def _recorded(self, key: str, operation: Operation) -> Outcome | None:
        found = self._log(key).outcomes.get(operation.id)
        if found is None:
            return None
        input_hash, outcome = found
        if input_hash != operation.input_hash:
            raise mismatch()
        return replace(outcome, replayed=True, current_version=self._version(key))

    def _known_or_fenced(self, key: str, operation: Operation) -> Outcome | None:
        known = self._recorded(key, operation)
        if known is None and operation.epoch < self._log(key).epoch:
            raise fenced()
        return known

    def _record(self, key: str, operation: Operation, outcome: Outcome) -> Outcome:
        log = self._log(key)
        log.epoch = operation.epoch
        log.expires_ms = self._now() + log_ttl_ms(self._ttl_ms)
        log.outcomes[operation.id] = (operation.input_hash, outcome)
        if len(log.outcomes) > self._operation_ids:
            log.outcomes.popitem(last=False)
        self._logs[key] = log
        self._logs.move_to_end(key)
        if len(self._logs) > self._max_entries:
            self._logs.popitem(last=False)
        return replace(outcome, current_version=self._version(key))
