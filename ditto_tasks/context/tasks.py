"""The CONTEXT tasks: explicit contexts, reads of stored ones, and mutations through the operation log."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, cast

from ditto_tasks.canonical import canonical_text
from ditto_tasks.context.base import ContextExecution, ContextServices
from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.context.nodes.dispatch import dispatch
from ditto_tasks.context.opening import OpenContext
from ditto_tasks.context.steps import drive
from ditto_tasks.context.task_store import MutationRules, MutationStore, ReadStore, typed_service_errors
from ditto_tasks.context.tokens import total_tokens
from ditto_tasks.errors import ContextError, DittoError
from ditto_tasks.interruptions import AskingToken
from ditto_tasks.json_values import MESSAGE_DEPTH, JsonObject, JsonValue, freeze
from ditto_tasks.models import Scope, to_wire
from ditto_tasks.state.base import ContextStateStore, Operation, Outcome, StoredContext
from ditto_tasks.task import Handler, TaskCall

# Refusals that a repetition must meet again. Others depend on configuration, a provider or the moment.
RECORDED: Final = frozenset(
    {
        "INVALID_INPUT",
        "INLINE_LIMIT_EXCEEDED",
        "ITEM_LIMIT_EXCEEDED",
        "DUPLICATE_ITEM",
        "MISSING_ITEM",
        "BUDGET_UNSATISFIABLE",
        "BUDGET_TOO_SMALL",
        "CONTEXT_NOT_FOUND",
        "STATE_CONFLICT",
    }
)


def run_context_task(call: TaskCall) -> JsonValue:
    """Run one call of any of the four nodes; asked to, with a receipt of what was selected and why."""
    opened = call.dependencies.context()
    asking = replace(call, token=AskingToken(call.interruption))
    with opened.entries.entered(_wait_on if _commits(call) else asking.stop_if_interrupted):
        return _explained(asking, opened) if call.options.explain else _run(asking, opened)


def _wait_on() -> None:
    """Of a mutation that waits for its entry: its log is asked before anything may end it."""


def recorded_outcome(call: TaskCall) -> Outcome | None:
    """What a mutation came to, as its operation log has it; None if it left no mark there, or is none."""
    opened = call.dependencies.context()
    if not _commits(call) or opened.services.state_store is None:
        return None
    return _mutation_store(call, opened).recall(Scope.parse(call.wire["scope"]))


def _commits(call: TaskCall) -> bool:
    if "scope" not in call.wire or call.node == "CONTEXT.SELECT":
        return False
    return call.node != "CONTEXT.LOAD" or "sources" in call.wire


def _explained(call: TaskCall, opened: OpenContext) -> JsonValue:
    opened, recording = opened.recorded()
    answer = _run(call, opened)
    if recording.finished is None or not isinstance(answer, dict) or answer.get("replayed"):
        return answer
    return {**answer, "explanation": to_wire(recording.finished)}


def _run(call: TaskCall, opened: OpenContext) -> JsonValue:
    if "scope" not in call.wire or opened.services.state_store is None:
        return _explicit(call, opened)  # which also says, in the specified order, that there is no store
    return _mutate(call, opened) if _commits(call) else _read(call, opened)


def _explicit(call: TaskCall, opened: OpenContext) -> JsonValue:
    if call.options.reply == "receipt" and "scope" not in call.wire:
        raise ContextError.invalid_input("/ditto/reply", "a receipt needs a scope")
    result = _execute(call, opened, opened.services)
    return None if call.options.reply == "none" else to_wire(result)


def _read(call: TaskCall, opened: OpenContext) -> JsonValue:
    if call.options.if_absent:
        raise ContextError.invalid_input("/ditto/ifAbsent", "needs sources")
    call.stop_if_interrupted()
    store = ReadStore(cast("ContextStateStore", opened.services.state_store))
    result = _execute(call, opened, opened.with_store(store))
    match call.options.reply:
        case "none":
            return None
        case "receipt":
            key = "selection" if isinstance(result, ContextSelection) else "context"
            shown = result.context if isinstance(result, ContextSelection) else result
            about = {"scope": call.wire["scope"], "version": store.version, **_written_before(call)}
            return {**about, **_measured(shown, call, opened), key: to_wire(result)}
    return to_wire(result)


def _written_before(call: TaskCall) -> JsonObject:
    """The version that the step before this one wrote. What is read may be a later one."""
    before = call.upstream.get("version") if isinstance(call.upstream, Mapping) else None
    return {} if before is None else {"updatedVersion": before}


def _mutate(call: TaskCall, opened: OpenContext) -> JsonValue:
    scope = Scope.parse(call.wire["scope"])
    store = _mutation_store(call, opened)
    interruption = call.interruption()
    if interruption is not None or call.options.if_absent or call.refuse:
        recorded = store.recall(scope)
        if recorded is not None:
            return _replay(call, opened, store, recorded)
    if call.refuse:
        return _replay(call, opened, store, store.refuse(scope, call.refuse))
    if interruption is not None:
        raise interruption
    if call.options.if_absent and (present := store.get(scope)) is not None:
        return _answer(call, opened, Outcome(version=present.version), present)
    return _apply(call, opened, store, scope)


def _apply(call: TaskCall, opened: OpenContext, store: MutationStore, scope: Scope) -> JsonValue:
    """Read, pure function, one script. A refusal is recorded, and loses to an earlier delivery's outcome."""
    try:
        result = _execute(call, opened, opened.with_store(store))
    except DittoError as problem:
        committed = store.outcome or (store.recall(scope) if call.token.cancelled else None)
        if committed is not None:  # cancelled too late: a commit stands
            return _replay(call, opened, store, committed)
        if not store.was_read or problem.code not in RECORDED:
            raise
        outcome = store.refuse(scope, problem.code)
        if outcome.code == problem.code:
            raise _with_current_version(problem, outcome, store) from None
        return _replay(call, opened, store, outcome)
    outcome = cast("Outcome", store.outcome)  # set by the commit, without which no result comes back
    if outcome.replayed:
        return _replay(call, opened, store, outcome)
    if call.node == "CONTEXT.COMPRESS":
        _count_compression(call, opened, cast("StoredContext", store.stored).context, cast("Context", result))
    return _answer(call, opened, outcome, StoredContext(outcome.version or "", cast("Context", result)))


def _count_compression(call: TaskCall, opened: OpenContext, before: Context, after: Context) -> None:
    for when, context in (("before", before), ("after", after)):
        for name, number in _measured(context, call, opened).items():
            call.count(f"compress_{name}|{when}", cast("int | None", number) or 0)


def _replay(call: TaskCall, opened: OpenContext, store: MutationStore, outcome: Outcome) -> JsonValue:
    """The answer of an earlier delivery. The state may have moved on: then its sizes are not known."""
    if outcome.code is not None:
        refusal = ContextError(outcome.code, "refused, as an earlier delivery of this operation was")
        raise _with_current_version(refusal, outcome, store)
    store.get(Scope.parse(call.wire["scope"]))
    return _answer(call, opened, outcome, store.stored)  # not what onMissing would start from


def _answer(call: TaskCall, opened: OpenContext, outcome: Outcome, now: StoredContext | None) -> JsonValue:
    match call.options.reply:
        case "none":
            return None
        case "context":
            return None if now is None else to_wire(now.context)
    same = now is not None and now.version == outcome.version
    sizes = (
        _measured(now.context, call, opened) if now is not None and same else {"items": None, "tokens": None}
    )
    about = {"scope": call.wire["scope"], "version": outcome.version}
    return {**about, **sizes, "operationId": call.operation_id, "replayed": outcome.replayed}


def _measured(context: Context, call: TaskCall, opened: OpenContext) -> JsonObject:
    """Items and tokens. An estimator that fails here does not undo what was committed: null then."""
    execution = replace(_execution(call, opened, opened.services), recorder=None, call=None)
    try:
        tokens = total_tokens(context.items, execution)
    except Exception:  # noqa: BLE001 -- an injected service; the mutation itself stands
        return {"items": len(context.items), "tokens": None}
    return {"items": len(context.items), "tokens": tokens}


def _execute(call: TaskCall, opened: OpenContext, services: ContextServices) -> Context | ContextSelection:
    """The node as in process; what a service raises becomes a ServiceError without its text."""
    with typed_service_errors(call.node):
        result = drive(dispatch(call.node, call.wire, _execution(call, opened, services), drive))
        if opened.recording is not None:
            opened.recording.finish(result)
        return result


def _execution(call: TaskCall, opened: OpenContext, services: ContextServices) -> ContextExecution:
    return ContextExecution(opened.policy, services, call.token, call.client, recorder=opened.recording)


def operation_of(call: TaskCall) -> Operation:
    """What the log knows a call by; the same id with another input is another operation, and refused."""
    return operation(call, call.operation_id, call.wire)


def operation(call: TaskCall, operation_id: str, wire: JsonObject) -> Operation:
    """What the log knows one of the changes of a call by, which has an id and an input of its own."""
    digest = hashlib.sha256(canonical_text(freeze([call.node, wire], max_depth=MESSAGE_DEPTH)).encode())
    return Operation(operation_id, digest.hexdigest(), call.epoch)


def _mutation_store(call: TaskCall, opened: OpenContext) -> MutationStore:
    rules = MutationRules(
        create_missing=call.options.on_missing == "create",
        only_if_absent=call.options.if_absent,
        timeout_ms=opened.mutation_timeout_ms,
    )
    return MutationStore(cast("ContextStateStore", opened.services.state_store), operation_of(call), rules)


def _with_current_version(refusal: DittoError, outcome: Outcome, store: ReadStore) -> DittoError:
    """A STATE_CONFLICT names the version that stands now, so that its caller can decide."""
    if refusal.code != "STATE_CONFLICT":
        return refusal
    current = outcome.current_version or store.version
    return ContextError(refusal.code, refusal.message, {"current_version": current})


HANDLERS: Final[Mapping[str, Handler]] = MappingProxyType(
    dict.fromkeys(("CONTEXT.LOAD", "CONTEXT.SELECT", "CONTEXT.UPDATE", "CONTEXT.COMPRESS"), run_context_task)
)
