"""What the owner of a shard does for its pipelines: nothing lost waits for ever.

A stock queue can lose a popped message when its worker is killed, and then nobody would go on.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.base import PipelineRecord, TrackedRecords
from ditto_tasks.pipelines.runs import StepRuns

QUIET_MS: Final = 15_000  # three missed heartbeats; doubled with each sending, for a queue may just be long

Resend = Callable[[PipelineRecord], None]


class Verdict(Enum):
    """What a pipeline needs."""

    WAIT = "wait"
    RESEND = "resend"
    EXPIRE = "expire"
    ANNOUNCE = "announce"


def verdict(record: PipelineRecord, *, quiet_ms: int = QUIET_MS) -> Verdict:
    """What to do about a pipeline, from its record alone."""
    if record.state != "running":
        return Verdict.ANNOUNCE
    if record.now_ms >= record.deadline_ms:
        return Verdict.EXPIRE
    silent_ms = record.now_ms - record.active_ms
    return Verdict.RESEND if silent_ms >= quiet_ms << record.resent else Verdict.WAIT


def sweep(
    shard: int, *, records: TrackedRecords, runs: StepRuns, resend: Resend, quiet_ms: int = QUIET_MS
) -> None:
    """Look after every pipeline of a shard; meant for the shard's owner, every few seconds.

    `resend` sends what is left of a pipeline under the same task ids. Idempotent.
    """
    for pipeline in records.tracked(shard):
        record = records.load(pipeline)
        if record is None or _tend(record, records, runs, resend, quiet_ms):
            records.forget(pipeline, shard)


def _tend(
    record: PipelineRecord, records: TrackedRecords, runs: StepRuns, resend: Resend, quiet_ms: int
) -> bool:
    """Do what a pipeline needs; True if nothing is left to look after."""
    match verdict(record, quiet_ms=quiet_ms):
        case Verdict.RESEND:
            records.resend(record.pipeline)  # first: a crash in between delays a sending, and never floods
            resend(record)
        case Verdict.EXPIRE:
            message = "the pipeline did not finish within its deadline"
            runs.fail(record.pipeline, PipelineError("PIPELINE_DEADLINE_EXCEEDED", message))
        case Verdict.ANNOUNCE:
            runs.repeat_end(record)
            return True
        case Verdict.WAIT:
            pass
    return False
