"""What may be seen of a run: names, states, times and codes. Never an input, an output or a session's id.

Every kind of run has one: the answering pipeline, flows, graphs and loops. `RunReader` says who gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

from ditto_tasks.models import NonEmptyText, Text, WireModel

RunKind: TypeAlias = Literal["answer", "flow", "graph", "loop"]
RunViewState: TypeAlias = Literal["running", "done", "failed", "cancelled"]
NodeState: TypeAlias = Literal["waiting", "sent", "running", "done", "failed", "skipped"]

SETTLED: Final[frozenset[NodeState]] = frozenset({"done", "failed"})  # it ran to its end
MAX_PAGE: Final = 1_000  # runs of one listing


class RunError(WireModel):
    """Why a run failed: the public code and message, and the node where it began, if it was one."""

    code: NonEmptyText
    message: Text
    node: NonEmptyText | None = None


class NodeView(WireModel):
    """One step of a run. Times are milliseconds since the epoch, by the server's clock."""

    id: NonEmptyText
    node: NonEmptyText  # its type
    dependencies: tuple[NonEmptyText, ...] = ()
    state: NodeState
    started_ms: int | None = None
    ended_ms: int | None = None
    attempt: int | None = None  # how often it was sent, where that is known

    @property
    def settled(self) -> bool:
        return self.state in SETTLED


class RunSummary(WireModel):
    """A run in a listing."""

    id: NonEmptyText
    kind: RunKind
    name: NonEmptyText  # of the flow, graph or loop; "answer" for the answering pipeline
    state: RunViewState
    opened_ms: int
    deadline_ms: int
    ended_ms: int | None = None
    settled: int = 0
    total: int | None = None  # None where the next step follows from the last: a flow
    code: Text | None = None  # of the error


class RunView(WireModel):
    """A run as it stands; `now_ms` is when it was read."""

    id: NonEmptyText
    kind: RunKind
    name: NonEmptyText
    state: RunViewState
    opened_ms: int
    deadline_ms: int
    now_ms: int
    ended_ms: int | None = None
    error: RunError | None = None
    nodes: tuple[NodeView, ...] = ()  # each after those that it depends on
    iteration: int | None = None  # of a loop, from 1; the nodes are this iteration's
    scope_hash: Text | None = None

    @property
    def settled(self) -> int:
        return sum(node.settled for node in self.nodes)


class RunPage(WireModel):
    """Some runs, the newest first; `cursor` asks for those after them, None at the end."""

    runs: tuple[RunSummary, ...] = ()
    cursor: Text | None = None


class RunReader(Protocol):
    """Reads runs. Neither call changes anything, and both may be a moment old."""

    def list(
        self,
        *,
        tenant: str | None = None,
        states: Sequence[RunViewState] = (),
        limit: int = 100,
        cursor: str | None = None,
    ) -> RunPage:
        """Runs of one tenant (None: of the whole deployment), the newest first; no states means all.

        Fewer than `limit` may come while there are more: only a page without a cursor is the last.
        """

    def load(self, run_id: str) -> RunView | None:
        """One run; None where there is none, or its record has expired."""
