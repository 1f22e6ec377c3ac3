"""The store over scripts: compare-and-set on one key, and the operation log beside it."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import uuid4

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.context.models import Context, parse_context
from ditto_tasks.errors import ContextError, OutcomeUnknown
from ditto_tasks.models import Scope
from ditto_tasks.redis_replies import text
from ditto_tasks.state.base import Operation, Outcome, StoredContext
from ditto_tasks.state.commands import Commands, IndexNote
from ditto_tasks.state.encoding import (
    Place,
    decode_record,
    encode_record,
    place_of,
    tombstones_of,
    version_of_record,
)
from ditto_tasks.state.limits import (
    check_expected_version,
    check_key_prefix,
    check_operation_ids,
    check_ttl_ms,
)
from ditto_tasks.state.operations import (
    LAST_EPOCH,
    conflict,
    erased,
    fenced,
    log_ttl_ms,
    operation_field,
    parse_entry,
)
from ditto_tasks.state.scripts import Script, StateScripts

TTL_MS: Final = 3_600_000
SETTLE_MS: Final = 5_000  # how long a lost reply is asked about before the outcome is called unknown
SETTLE_POLL_S: Final = 0.05


class _Change(NamedTuple):
    scope: Scope
    expected: str  # "" = nothing may be stored
    version: str
    context: Context
    record: bytes


class _LogReply(NamedTuple):
    status: str
    entry: str
    version: str | None  # the version stored, None if absent or in a foreign layout


class ScriptedContextStore:
    """Both ports over a client that runs scripts; `RedisContextStore` is its public form."""

    def __init__(
        self,
        commands: Commands,
        *,
        ttl_ms: int,
        key_prefix: str,
        operation_ids: int,
        settle_ms: int,
        renew_ttl: bool,
    ) -> None:
        self._commands = commands
        self._ttl_ms = check_ttl_ms(ttl_ms)
        self._key_prefix = check_key_prefix(key_prefix)
        self._settle_s = settle_ms / 1000
        kept = check_operation_ids(operation_ids)
        self._renew_ttl = renew_ttl
        self._scripts = StateScripts.load(
            ttl_ms=self._ttl_ms if renew_ttl else None, log_ttl_ms=log_ttl_ms(self._ttl_ms), kept=kept
        )

    def get(
        self,
        scope: Scope,
        call: CancelToken | None = None,  # noqa: ARG002 -- a driver call cannot be cancelled
    ) -> StoredContext | None:
        raw = self._commands.get(place_of(scope, self._key_prefix).state)
        return None if raw is None else decode_record(raw)

    def compare_and_set(
        self,
        scope: Scope,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- the name that the port has in every runtime
        call: CancelToken | None = None,  # noqa: ARG002 -- as in get
    ) -> StoredContext:
        change = self._change(scope, expected_version, next)
        reply = self._compare_and_set(change)
        if reply in ("FOREIGN", b"FOREIGN"):
            reply = self._compare_and_set(change, self._foreign_sha1(change))
        if type(reply) is not int or reply not in (0, 1):
            raise ContextError("INVALID_STATE", "the state script gave an unknown reply")
        if reply == 0:
            raise conflict(self._current_version(scope))
        return StoredContext(change.version, change.context)

    def recall(self, scope: Scope, operation: Operation) -> Outcome | None:
        reply = self._ask_log(self._scripts.recall, scope, operation)
        return _recorded(reply, operation) if reply.status == "known" else None

    def commit(
        self,
        scope: Scope,
        operation: Operation,
        *,
        expected_version: str | None,
        next: Context,  # noqa: A002 -- as in compare_and_set
    ) -> Outcome:
        change = self._change(scope, expected_version, next)
        # what exists has its own log, on which erasure leaves its mark
        tombstones = () if expected_version else tombstones_of(change.scope, self._key_prefix)
        if not self._commands.one_server:
            self._refuse_erased(tombstones)
            tombstones = ()
        reply = self._attempt(change, operation, tombstones)
        if reply.status == "foreign":
            reply = self._attempt(change, operation, (), self._foreign_sha1(change))
        if reply.status == "erased":
            raise erased()
        if reply.status in ("conflict", "foreign"):
            # The script has just looked the id up, so a conflict is never this operation's own write.
            raise conflict(reply.version or self._current_version(scope))
        if reply.status == "written":
            return Outcome(version=change.version, current_version=change.version)
        outcome = _recorded(reply, operation)
        return replace(outcome, replayed=False) if outcome.version == change.version else outcome

    def refuse(self, scope: Scope, operation: Operation, *, code: str) -> Outcome:
        reply = self._ask_log(self._scripts.refuse, scope, operation, code)
        if reply.status == "written":
            return Outcome(code=code, current_version=reply.version)
        return _recorded(reply, operation)

    def _refuse_erased(self, tombstones: Sequence[str]) -> None:
        for key in tombstones:
            try:
                erased_at = self._commands.get(key)
            except Exception as error:
                raise self._commands.translate(error) from error
            if erased_at is not None:
                raise erased()

    def _change(self, scope: Scope, expected_version: str | None, context: Context) -> _Change:
        check_expected_version(expected_version)
        checked, version = parse_context(context), str(uuid4())
        record = encode_record(version, checked, scope)
        return _Change(Scope.parse(scope), expected_version or "", version, checked, record)

    def _compare_and_set(self, change: _Change, *sha1: str) -> object:
        place = place_of(change.scope, self._key_prefix)
        arguments: list[str | bytes] = [change.expected, change.record, str(self._ttl_ms), *sha1]
        return self._commands.run(self._scripts.compare_and_set, [place.state], arguments, self._note(place))

    def _attempt(
        self, change: _Change, operation: Operation, tombstones: Sequence[str], *sha1: str
    ) -> _LogReply:
        arguments: list[str | bytes] = [change.expected, change.record, *sha1]
        try:
            reply = self._run_on_log(self._scripts.commit, change.scope, operation, arguments, tombstones)
        except Exception as error:  # noqa: BLE001 -- a client's errors are its own; each may be a lost reply
            return self._settle(change, operation, error)
        return _parse_reply(reply)

    def _settle(self, change: _Change, operation: Operation, error: Exception) -> _LogReply:
        """The outcome of an attempt that raised `error`, from the log; else the typed error for it."""
        refused = self._commands.is_refusal(error)
        script = self._scripts.recall if refused else self._scripts.give_up
        deadline = time.monotonic() + self._settle_s
        while True:
            try:
                reply = self._run_on_log(script, change.scope, operation, [change.version])
                break
            except Exception as again:  # noqa: BLE001 -- as above
                answered = self._commands.is_refusal(again)
                if answered and refused:
                    raise self._commands.translate(error) from error
                if answered or time.monotonic() >= deadline:
                    raise OutcomeUnknown from error
            time.sleep(SETTLE_POLL_S)
        settled = _parse_reply(reply)
        if settled.status != "known":
            raise self._commands.translate(error) from error
        return settled

    def _ask_log(self, script: Script, scope: Scope, operation: Operation, *arguments: str) -> _LogReply:
        try:
            reply = self._run_on_log(script, scope, operation, arguments)
        except Exception as error:
            raise self._commands.translate(error) from error
        return _parse_reply(reply)

    def _run_on_log(
        self,
        script: Script,
        scope: Scope,
        operation: Operation,
        arguments: Sequence[str | bytes],
        more_keys: Sequence[str] = (),
    ) -> object:
        place = place_of(scope, self._key_prefix)
        about = (operation_field(operation), operation.input_hash, str(operation.epoch), place.member)
        commits = script is self._scripts.commit and self._renew_ttl  # else the index says when already
        note = self._note(place) if commits else None
        return self._commands.run(script, [place.state, place.log, *more_keys], [*about, *arguments], note)

    def _note(self, place: Place) -> IndexNote:
        return IndexNote(place.index_key, place.member, self._ttl_ms)

    def _foreign_sha1(self, change: _Change) -> str:
        """The SHA-1 of the bytes that hold the expected version in a layout that scripts cannot read."""
        raw = self._commands.get(place_of(change.scope, self._key_prefix).state)
        version = None if raw is None else version_of_record(raw)
        if raw is None or version != change.expected:
            raise conflict(version)
        return hashlib.sha1(raw, usedforsecurity=False).hexdigest()

    def _current_version(self, scope: Scope) -> str | None:
        """For the details of a conflict; None also for a record that nobody can read."""
        raw = self._commands.get(place_of(scope, self._key_prefix).state)
        try:
            return None if raw is None else version_of_record(raw)
        except ContextError:
            return None


def _parse_reply(reply: object) -> _LogReply:
    if type(reply) is int and reply == 1:
        return _LogReply("written", "", None)
    if not isinstance(reply, list | tuple) or len(reply) != 3:
        raise ContextError("INVALID_STATE", "the state script gave an unknown reply")
    status, entry, version = map(text, reply)
    return _LogReply(status, entry, version or None)


def _recorded(reply: _LogReply, operation: Operation) -> Outcome:
    if reply.status == "known":
        return replace(parse_entry(reply.entry, operation), current_version=reply.version)
    if reply.status == "fenced":
        raise erased() if reply.entry == LAST_EPOCH else fenced()
    raise ContextError("INVALID_STATE", "the state script gave an unknown reply")
