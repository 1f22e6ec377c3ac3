"""The operation log as scripts keep it: field names, entries and what they mean. Pure."""

import hashlib
from dataclasses import replace
from typing import Final

from ditto_tasks.errors import ContextError
from ditto_tasks.state.base import Operation, Outcome

OPERATIONS_KEPT: Final = 512  # of a scope: more than a client sends while it still wonders about one call
LOG_TTL_MS: Final = (
    24 * 3_600_000
)  # a message may be redelivered for that long, however short the state lives

LAST_EPOCH: Final = str(2**53 - 1)  # of an erased scope's log; exact in Lua; shards' epochs are times in ms


def operation_field(operation: Operation) -> str:
    """The hash field of an operation: of one length, whatever its sender called it."""
    return "op:" + hashlib.sha256(operation.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def log_ttl_ms(ttl_ms: int) -> int:
    """How long a log lives for states that live `ttl_ms`."""
    return max(ttl_ms, LOG_TTL_MS)


def parse_entry(entry: str, operation: Operation) -> Outcome:
    """A recorded outcome; ContextError OPERATION_MISMATCH if it belongs to another input."""
    _, input_hash, kind, value = entry.split(" ", 3)
    if input_hash != operation.input_hash:
        raise mismatch()
    outcome = Outcome(version=value) if kind == "v" else Outcome(code=value)
    return replace(outcome, replayed=True)


def mismatch() -> ContextError:
    """The refusal of an id that stands for something else."""
    return ContextError("OPERATION_MISMATCH", "the operation id was used before with another input")


def fenced() -> ContextError:
    """The refusal of a worker whose lease on the scope's shard is over."""
    return ContextError("FENCED", "a newer owner has worked on this scope")


def erased() -> ContextError:
    """The refusal of work that comes after its session or tenant was erased."""
    return ContextError("ERASED", "the session or tenant was erased; late work is refused")


def conflict(current_version: str | None) -> ContextError:
    """The refusal of a mutation of something that has changed since it was read."""
    return ContextError(
        "STATE_CONFLICT", "the stored context has another version", {"current_version": current_version}
    )
