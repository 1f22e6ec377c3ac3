"""Stores that one task sees: they remember what was read, and write through the operation log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context.models import Context
from ditto_tasks.errors import ContextError, DittoError, ServiceError, StateBackendError, raised
from ditto_tasks.models import Scope
from ditto_tasks.state.base import (
    ContextStateStore,
    Operation,
    OperationLog,
    Outcome,
    StoredContext,
)
from ditto_tasks.state.redis import translated_errors

logger = logging.getLogger(__name__)

EMPTY: Final = Context.assemble({"items": ()})
ABSENT: Final = "absent"  # stands for the version of nothing; no store gives out such a one


class ReadStore:
    """The configured store, read only; its raw errors become StateBackendError."""

    def __init__(self, store: ContextStateStore) -> None:
        self._store = store
        self.was_read = False
        self.stored: StoredContext | None = None

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        with typed_errors():
            self.stored = self._store.get(scope, call)
        self.was_read = True
        return self.stored

    def compare_and_set(
        self,
        scope: Scope,  # noqa: ARG002 -- the port's form, as below
        expected_version: str | None,  # noqa: ARG002 -- as above
        next: Context,  # noqa: A002, ARG002 -- as above
        call: CancelToken | None = None,  # noqa: ARG002 -- as above
    ) -> StoredContext:
        raise ContextError("STATE_STORE_UNAVAILABLE", "this call may only read")

    @property
    def version(self) -> str | None:
        return None if self.stored is None else self.stored.version


@dataclass(frozen=True, slots=True)
class MutationRules:
    """How a mutation treats a missing or present state, and how long it may take."""

    create_missing: bool = False
    only_if_absent: bool = False
    timeout_ms: int = 30_000


class MutationStore(ReadStore):
    """Commits through the operation log, so that a second delivery has no second effect."""

    def __init__(self, store: ContextStateStore, operation: Operation, rules: MutationRules) -> None:
        super().__init__(store)
        if not isinstance(store, OperationLog):
            raise ContextError("OPERATIONS_UNSUPPORTED", "the state store keeps no operation log")
        self._log: OperationLog = store
        self._operation = operation
        self._rules = rules
        self._started = time.monotonic()
        self.outcome: Outcome | None = None

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        stored = super().get(scope, call)
        if stored is None and self._rules.create_missing:
            return StoredContext(ABSENT, EMPTY)
        return stored

    def compare_and_set(
        self,
        scope: Scope,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- the port's name
        call: CancelToken | None = None,  # noqa: ARG002 -- the port's form
    ) -> StoredContext:
        if (time.monotonic() - self._started) * 1000 > self._rules.timeout_ms:
            raise ContextError("TIMEOUT", "the mutation took longer than shards.mutationTimeoutMs")
        absent = expected_version == ABSENT or self._rules.only_if_absent
        expected = None if absent else expected_version
        with typed_errors():
            self.outcome = self._log.commit(scope, self._operation, expected_version=expected, next=next)
        return StoredContext(self.outcome.version or "", next)

    def recall(self, scope: Scope) -> Outcome | None:
        """What an earlier delivery of this operation came to, if there was one."""
        with typed_errors():
            return self._log.recall(scope, self._operation)

    def refuse(self, scope: Scope, code: str) -> Outcome:
        """Record a refusal; the recorded outcome of an earlier delivery wins."""
        with typed_errors():
            return self._log.refuse(scope, self._operation, code=code)


@contextmanager
def typed_service_errors(node: str) -> Iterator[None]:
    """What an injected service raises has a code and a message without its text; the log says where."""
    try:
        yield
    except DittoError:
        raise
    except Exception as exc:
        logger.warning("A service of %s raised %s", node, raised(exc))
        raise ServiceError("SERVICE_ERROR", f"a service of {node} raised {type(exc).__name__}") from exc


@contextmanager
def typed_errors() -> Iterator[None]:
    """At the task boundary a store's raw error has a code and a message without its text."""
    try:
        with translated_errors():
            yield
    except DittoError:
        raise
    except Exception as exc:
        raise StateBackendError(
            "STATE_BACKEND_ERROR", f"the state store raised {type(exc).__name__}"
        ) from exc
