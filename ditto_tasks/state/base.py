"""Ports to the state of scopes: what a node may ask of a store, whatever is behind it."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context.models import Context
from ditto_tasks.models import Scope


@dataclass(frozen=True, slots=True)
class StoredContext:
    """A context together with the version under which it stands."""

    version: str
    context: Context


@dataclass(frozen=True, slots=True)
class Operation:
    """One mutation as its sender named it: a second delivery carries the same id and the same input hash.

    `epoch` is the fencing token of the shard's lease; 0 stands for "no lease", and is never fenced
    unless a lease was seen before.
    """

    id: str
    input_hash: str
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an operation: the version that it wrote, or the code with which it was refused.

    `replayed`: recorded by an earlier delivery. `current_version`: the version that the store holds
    now as far as the store saw it on the way, else None.
    """

    version: str | None = None
    code: str | None = None
    replayed: bool = False
    current_version: str | None = None


class ContextStateStore(Protocol):
    """Contexts by scope. Safe for use from several threads, processes and machines."""

    def get(self, scope: Scope, call: CancelToken | None = None) -> StoredContext | None:
        """The stored context, or None. Never writes and never renews a time to live.

        Raises ContextError INVALID_STATE for a record that nobody can read; driver errors pass raw.
        """

    def compare_and_set(
        self,
        scope: Scope,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- the name that the port has in every runtime
        call: CancelToken | None = None,
    ) -> StoredContext:
        """Atomically write `next` if the stored version is `expected_version` (None: nothing is stored).

        Returns it under a version that was never used before; raises STATE_CONFLICT and writes nothing
        otherwise. Not idempotent. Renews the time to live.
        """


@runtime_checkable
class OperationLog(Protocol):
    """Optional ability of a store: mutations that know their sender's id and have an effect once.

    The three calls are idempotent: a repeated operation gets its recorded outcome. They raise ContextError
    OPERATION_MISMATCH if the id was used with another input, FENCED if a newer epoch was seen and nothing
    is recorded, and StateBackendError or OutcomeUnknown when the store cannot be asked.
    """

    def recall(self, scope: Scope, operation: Operation) -> Outcome | None:
        """The recorded outcome, or None. Writes nothing; an older epoch is no error here."""

    def commit(
        self,
        scope: Scope,
        operation: Operation,
        *,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- as in compare_and_set
    ) -> Outcome:
        """Compare-and-set plus the record of its outcome, in one step; STATE_CONFLICT records nothing."""

    def refuse(self, scope: Scope, operation: Operation, *, code: str) -> Outcome:
        """Record that the operation was refused with `code`; the state stays as it is."""
