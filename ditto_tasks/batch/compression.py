"""One delivery of the compression of some scopes of one shard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from ditto_tasks.batch.compressing import is_within, sizes_of, would_compress
from ditto_tasks.batch.models import CompressInput, Row
from ditto_tasks.batch.reading import Read, Turn, batch_of, execution_of, reads, store_of
from ditto_tasks.batch.rows import BatchRows
from ditto_tasks.canonical import scope_key
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.models import Context
from ditto_tasks.context.opening import OpenContext
from ditto_tasks.context.task_store import MutationRules, MutationStore, typed_service_errors
from ditto_tasks.context.tasks import operation
from ditto_tasks.errors import ContextError, DittoError, StateBackendError
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.state.base import Outcome
from ditto_tasks.task import TaskCall

NOT_OF_THE_SCOPE: Final = ("FENCED", "STATE_OUTCOME_UNKNOWN")  # the shard has the call run again


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to become of a scope: its row, and what to commit in place of which version, if anything."""

    row: Row
    version: str = ""
    after: Context | None = None


@dataclass(frozen=True, slots=True)
class Compression:
    """Reads, computes and plans all scopes, and then commits one after the other.

    A worker that dies in between loses nothing: each commit is an operation of its own, by the run's and the
    scope's name, and what it was about to do stands with the rows before the first one.
    """

    call: TaskCall
    request: CompressInput
    rows: BatchRows

    def run(self) -> dict[str, tuple[Scope, Row]]:
        """The scopes that were reached in time, at least one, and their rows; by the scopes' hashes."""
        if self.call.refuse and len(self.request.scopes) > 1:  # one was too slow; alone it shows which
            raise ContextError(self.call.refuse, "a call of several scopes was given up")
        opened, turn = self.call.dependencies.context(), Turn(self.call)
        scopes = {scope_key(scope): scope for scope in self.request.scopes}
        drafts = dict(self._drafts(scopes, opened, turn))
        plans = {name: draft.row for name, draft in drafts.items() if draft.after is not None}
        known = self.rows.plan({name: scopes[name] for name in drafts}, plans)
        done: dict[str, tuple[Scope, Row]] = {}
        for (name, draft), before in zip(drafts.items(), known, strict=True):
            if done and turn.is_over():
                break
            done[name] = (
                scopes[name],
                before.final or self._ended(scopes[name], draft, before.planned, opened),
            )
        return done

    def _drafts(
        self, scopes: Mapping[str, Scope], opened: OpenContext, turn: Turn
    ) -> Iterator[tuple[str, Draft]]:
        if self.call.refuse:
            for name in scopes:
                yield name, Draft(Row(scope=name, status="failed", code=self.call.refuse))
            return
        execution = execution_of(self.call, opened)
        contexts = reads(list(scopes.values()), opened, batch_of(self.call))
        for place, (name, read) in enumerate(zip(scopes, contexts, strict=True)):
            if place and turn.is_over():
                return
            turn.give_way()
            try:
                with typed_service_errors(self.call.node):
                    yield name, self._draft(name, read, execution)
            except DittoError as problem:
                yield name, Draft(_failed(name, problem))

    def _draft(self, name: str, read: Read, execution: ContextExecution) -> Draft:
        stored = read()
        before = sizes_of(stored.context, execution)
        if is_within(before, self.request, execution):
            return Draft(Row(scope=name, status="unchanged", before=before, after=before))
        row, after = would_compress(name, stored.context, before, self.request, execution)
        return Draft(row, stored.version, after)

    def _ended(self, scope: Scope, draft: Draft, planned: Row | None, opened: OpenContext) -> Row:
        try:
            with typed_service_errors(self.call.node):
                return self._committed(self._store(scope, opened), scope, draft, planned)
        except DittoError as problem:
            return _failed(draft.row.scope, problem)

    def _committed(self, store: MutationStore, scope: Scope, draft: Draft, planned: Row | None) -> Row:
        """What an earlier delivery came to; else commit the draft."""
        recorded = store.recall(scope) if planned or self.call.redelivered else None
        if recorded is None and self.call.refuse:
            recorded = store.refuse(scope, self.call.refuse)
        if recorded is not None:
            return _recorded(recorded, draft.row.scope, planned)
        if draft.after is None:
            return draft.row
        if planned is not None:
            self.rows.plan_again(draft.row)
        store.compare_and_set(scope, draft.version, draft.after)
        outcome = cast("Outcome", store.outcome)
        if outcome.replayed:
            return _recorded(outcome, draft.row.scope, None)
        self._count(draft.row)
        return draft.row.model_copy(update={"status": "compressed"})

    def _store(self, scope: Scope, opened: OpenContext) -> MutationStore:
        """The operation is the run's and the scope's, in whichever call it comes."""
        store = opened.services.state_store if self.request.renew_ttl else opened.unrenewing_store
        wire = {**self.call.wire, "scopes": [to_wire(scope)]}
        about = operation(self.call, f"{self.request.run}:{scope_key(scope)}", wire)
        return MutationStore(store_of(store), about, MutationRules(timeout_ms=opened.mutation_timeout_ms))

    def _count(self, row: Row) -> None:
        for when, sizes in (("before", row.before), ("after", row.after)):
            if sizes is not None:
                self.call.count(f"compress_items|{when}", sizes.items)
                self.call.count(f"compress_tokens|{when}", sizes.tokens or 0)


def _recorded(outcome: Outcome, name: str, planned: Row | None) -> Row:
    """What an earlier delivery came to; its sizes are those that it planned."""
    if outcome.code is not None:
        return Row(scope=name, status="failed", code=outcome.code)
    if planned is None:
        return Row(scope=name, status="compressed")
    return planned.model_copy(update={"status": "compressed"})


def _failed(name: str, problem: DittoError) -> Row:
    """The row of a scope that can't be compressed; raises what is not the scope's fault."""
    if isinstance(problem, StateBackendError) or problem.code in NOT_OF_THE_SCOPE:
        raise problem
    return Row(scope=name, status="failed", code=problem.code)
