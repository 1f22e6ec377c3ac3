"""What a call passes in the round trip that publishes it: tombstones, a full shard, notes of whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, cast

from ditto_tasks.belongings import CALL, CANVAS_TTL_MS, TASK, notes, noting_script
from ditto_tasks.errors import ContextError
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import ScriptClient, run_source
from ditto_tasks.redis_replies import text
from ditto_tasks.sending import note_begun
from ditto_tasks.state.operations import erased
from ditto_tasks.tenants import owners_of


@dataclass(frozen=True, slots=True)
class Admission:
    """One call that is about to be published: whose it is, and for how long that is to be known."""

    task_id: str
    root_id: str
    shard_queue: str | None
    session: str | None
    tenant: str | None
    ttl_ms: int
    in_canvas: bool = False  # other tasks belong to it, whose effects are known for longer

    @property
    def owners(self) -> tuple[str, ...]:
        """Whose records it makes."""
        return owners_of(self.session, self.tenant)

    @property
    def is_needed(self) -> bool:
        """False for a call that is nobody's and belongs to no shard."""
        return self.shard_queue is not None or bool(self.owners)

    def notes(self, keys: Keys) -> list[tuple[str, int, str]]:
        """(list, ms, name): the call is its owners', and a task its root's."""
        ttl_ms = max(self.ttl_ms, CANVAS_TTL_MS) if self.in_canvas else self.ttl_ms
        found = [(key, ttl_ms, name) for key, name in notes(keys, self.owners, CALL + self.root_id)]
        if self.root_id != self.task_id:
            found.append((keys.caused(self.root_id), CANVAS_TTL_MS, TASK + self.task_id))
        return found


@dataclass(frozen=True, slots=True)
class Gate:
    """What stands before one publish. Raises QUEUE_FULL or ERASED, and then nothing was written."""

    admission: Admission
    keys: Keys
    max_depth: int  # of a shard

    def check(self, client: ScriptClient) -> None:
        """Let the call in without its message."""
        self.push(client, self.admission.shard_queue or "", "")

    def push(self, client: ScriptClient, queue: str, message: str) -> None:
        """Let the call in with its message, in one step."""
        call, keys = self.admission, self.keys
        tombstones, noted = [keys.erased(owner) for owner in call.owners], call.notes(keys)
        limit = self.max_depth if call.shard_queue is not None else ""
        lists = [queue, keys.tenant(call.task_id), *tombstones, *(key for key, *_ in noted)]
        about = [limit, call.tenant or "", call.ttl_ms, message, len(tombstones)]
        names = [part for _, ttl_ms, name in noted for part in (ttl_ms, name)]
        reply = run_source(client, *noting_script("admit"), lists, *about, *names)
        verdict, depth = cast("tuple[bytes | str, int]", reply)
        _raise_refusal(text(verdict), depth)


def _raise_refusal(verdict: str, depth: int) -> None:
    if verdict == "erased":
        raise erased()
    if verdict == "full":
        raise ContextError("QUEUE_FULL", "too many calls are waiting for this shard", {"depth": depth})


_gate: Final[ContextVar[Gate | None]] = ContextVar("ditto_gate", default=None)


@contextmanager
def before_publish(gate: Gate) -> Iterator[None]:
    """The one message that is published in this block goes through the gate."""
    token = _gate.set(gate)
    try:
        yield
    finally:
        _gate.reset(token)


def gate_of_publish() -> Gate | None:
    """What the message that is being published now has to pass, if anything."""
    note_begun()
    return _gate.get()
