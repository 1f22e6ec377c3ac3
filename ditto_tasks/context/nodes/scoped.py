"""Calls on the state of a scope: read, run the node, compare and set. Nothing is retried."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.checks import Fields, an_object, optional_nonempty, refuse
from ditto_tasks.context.models import Context
from ditto_tasks.context.nodes.table import LOAD, ContextNode, ContextResult, find_node
from ditto_tasks.context.steps import Steps, drive
from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope
from ditto_tasks.state.base import ContextStateStore, StoredContext

_ABOUT_THE_STATE = frozenset({"scope", "expectedVersion"})


@dataclass(frozen=True, slots=True)
class ScopedCall:
    """A scoped call whose scope, version and store were checked, before the queue and before any I/O."""

    node: ContextNode
    fields: Fields
    scope: Scope
    expected_version: str | None
    store: ContextStateStore
    execution: ContextExecution

    @classmethod
    def of(cls, node: ContextNode, fields: Fields, execution: ContextExecution) -> ScopedCall:
        scope = Scope.parse(fields["scope"])
        if "context" in fields:
            raise refuse("/context", "cannot be given together with a scope")
        expected = optional_nonempty(fields, "expectedVersion", "")
        store = execution.services.state_store
        if store is None:
            raise ContextError("STATE_STORE_UNAVAILABLE", "no state store is configured")
        return cls(node, fields, scope, expected, store, execution)

    def steps(self) -> Steps[ContextResult]:
        """What runs when the call's turn has come."""
        stored = yield from self._read()
        self._check_version(stored)
        if self.node.type == LOAD and "sources" not in self.fields:
            return existing(stored.context if stored else None)
        current = stored.context if stored else None
        result = yield from run_on(self.node, self.fields, current, self.execution)
        self.execution.checkpoint()
        if isinstance(result, Context):
            yield from self._write(stored, result)
        return result

    def _read(self) -> Steps[StoredContext | None]:
        self.execution.checkpoint()
        answer = yield lambda: self.store.get(self.scope, self.execution.call)
        self.execution.checkpoint()
        return None if answer is None else _valid(answer)

    def _check_version(self, stored: StoredContext | None) -> None:
        found = stored.version if stored else None
        if self.expected_version not in (None, found):
            raise ContextError("STATE_CONFLICT", "the state has another version", {"current_version": found})

    def _write(self, stored: StoredContext | None, result: Context) -> Steps[None]:
        version = stored.version if stored else None
        yield lambda: self.store.compare_and_set(self.scope, version, result, self.execution.call)
        self.execution.checkpoint()


def run_on(
    node: ContextNode, fields: Fields, current: Context | None, execution: ContextExecution
) -> Steps[ContextResult]:
    """The node on a scope's current context. A missing one is found out before the input is looked at."""
    explicit = {key: value for key, value in fields.items() if key not in _ABOUT_THE_STATE}
    if node.type != LOAD:
        explicit["context"] = existing(current)
    return node.run(explicit, execution)


def apply_mutation(
    node: str,
    input_wire: object,
    current: Context | None,
    execution: ContextExecution,
    token: CancelToken | None = None,
) -> Context:
    """The next context of a scope whose current one was read: what a task commits.

    Scope and version are the caller's to check; the rest is checked in the order of a scoped call.
    """
    if token is not None:
        execution = replace(execution, call=token)
    execution.checkpoint()
    result = drive(run_on(find_node(node), an_object(input_wire, ""), current, execution))
    execution.checkpoint()
    if not isinstance(result, Context):
        raise ContextError("UNKNOWN_NODE", f"{node} changes nothing")
    return result


def existing(context: Context | None) -> Context:
    if context is None:
        raise ContextError("CONTEXT_NOT_FOUND", "the scope has no context")
    return context


def _valid(answer: object) -> StoredContext:
    """What a store answered, which may be an application's own."""
    if isinstance(answer, StoredContext) and isinstance(answer.context, Context):
        version: object = answer.version
        if isinstance(version, str) and version:
            return answer
    raise ContextError("INVALID_STATE", "the store's answer is no version with a context")
