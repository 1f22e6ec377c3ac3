"""Ports of pipelines: what keeps their records, and where their answers are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.pipelines.models import RunRequest

RunState: TypeAlias = Literal["running", "done", "failed"]
END: Final = "end"  # the last step of a flow's record: not a task, but where the flow's result is kept


@dataclass(frozen=True, slots=True)
class Begun:
    """What a step learns when it begins: the pipeline's state, its last step, and an earlier result."""

    state: RunState
    last_step: str
    finished: bool = False
    result: JsonValue = None

    @property
    def of_flow(self) -> bool:
        """True in a flow: what comes after a step follows from what all steps gave."""
        return self.last_step == END


@dataclass(frozen=True, slots=True)
class PipelineRecord:
    """A pipeline as it stands. Times are milliseconds since the epoch, by the server's clock."""

    pipeline: str
    request: RunRequest
    state: RunState
    deadline_ms: int
    now_ms: int  # when this was read
    active_ms: int  # when a step last began, finished, showed that it lives, or was sent again
    resent: int  # how often steps were sent again since one last finished
    results: Mapping[str, JsonValue] = field(default_factory=dict)
    error: JsonObject | None = None  # why it failed
    opened_ms: int = 0
    ended_ms: int | None = None
    began: Mapping[str, int] = field(default_factory=dict)  # when steps began, by name
    ended: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a listing shows of a run of any kind; it is read without inputs, results and states."""

    name: str
    state: Literal["running", "done", "failed", "cancelled"]
    opened_ms: int
    deadline_ms: int
    ended_ms: int | None
    error: JsonObject | None
    settled: int
    total: int | None = None
    kind: Literal["answer", "flow", "graph", "loop"] = "graph"


class StepRecords(Protocol):
    """Pipelines as their steps see them. Every call is atomic and idempotent, and creates no record."""

    def begin(self, pipeline: str, step: str) -> Begun | None:
        """Note that a step begins; None without a record."""

    def beat(self, pipeline: str) -> None:
        """Note that a step is still at work."""

    def finish(self, pipeline: str, step: str, result: JsonValue) -> JsonValue:
        """Record a step's result; the first one stands, and is what every delivery returns."""

    def settle(self, pipeline: str, state: RunState, error: JsonObject | None = None) -> RunState | None:
        """End a running pipeline; returns the state that it is in, None without a record."""

    def announced(self, pipeline: str) -> None:
        """Note that its caller was told of the end: nobody needs to look after it."""

    def load(self, pipeline: str) -> PipelineRecord | None:
        """The whole record."""


class TrackedRecords(Protocol):
    """Pipelines by the shard of their scope, as the shard's owner looks after them."""

    def tracked(self, shard: int) -> list[str]:
        """The pipelines whose end was not announced yet, the nearest deadline first."""

    def load(self, pipeline: str) -> PipelineRecord | None:
        """The whole record."""

    def resend(self, pipeline: str) -> None:
        """Note that steps are sent again."""

    def forget(self, pipeline: str, shard: int) -> None:
        """Take a pipeline off the list; its record stays until its TTL ends it."""


class AnswerStore(Protocol):
    """Where callers wait for a pipeline: Celery's result backend, under the pipeline's id."""

    def store_result(self, task_id: str, result: object, state: str) -> object: ...

    def get_task_meta(self, task_id: str) -> Mapping[str, object]: ...


class EndStore(Protocol):
    """The same for runs that can be resumed: each end is that of a run after so many resumes."""

    def store_end(self, run: str, result: object, state: str, resumes: int) -> bool:
        """Store an end and tell whoever waits; False if the run was resumed since, and nothing is stored."""

    def withdraw_end(self, run: str, resumes: int) -> None:
        """Remove the end that a run had before it was resumed so often, and let nobody store it any more."""
