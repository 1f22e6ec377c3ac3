"""Values of graph runs, and how the replies of their scripts are read. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast

from ditto_tasks.json_values import JsonObject, JsonValue, decode
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.base import Outline
from ditto_tasks.pipelines.graph_plan import Specification
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.redis_replies import text

GraphState: TypeAlias = Literal["running", "done", "failed", "cancelled"]
Refusal: TypeAlias = Literal["settled", "stale", "busy", "ended", "unknown"]


class Handed(NamedTuple):
    """A node that is to be published."""

    node: str
    attempt: int
    specification: Specification


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as a script left it, and what is to be published now."""

    state: GraphState
    deadline_ms: int
    resumes: int
    headers: JsonObject
    handed: tuple[Handed, ...]
    now_ms: int = 0
    given_up: tuple[tuple[str, int], ...] = ()  # nodes, with their attempt, at which too many workers died


@dataclass(frozen=True, slots=True)
class Given:
    """What a node that begins is given."""

    specification: Specification
    deadline_ms: int
    resumes: int
    input: JsonValue
    outputs: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Opening:
    """A run that is to be recorded."""

    run: str
    graph: Graph
    input: JsonValue
    shard: int
    timeout_ms: int
    concurrency: int
    scope: Scope | None = None
    headers: JsonObject | None = None
    parent: str = ""  # the loop that it is an iteration of
    resumes: int = 0  # of that loop


@dataclass(frozen=True, slots=True)
class Head:
    """What a run's record says of the whole run."""

    state: GraphState
    graph: str
    parent: str
    error: JsonObject | None
    scope: JsonObject | None
    resumes: int  # how often it was resumed; an iteration has the number of its loop


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; times by the server's clock."""

    state: GraphState
    graph: str
    opened_ms: int
    deadline_ms: int
    ended_ms: int | None
    error: JsonObject | None
    headers: JsonObject
    total: int
    settled: int
    now_ms: int

    @property
    def outline(self) -> Outline:
        return Outline(
            name=self.graph,
            state=self.state,
            opened_ms=self.opened_ms,
            deadline_ms=self.deadline_ms,
            ended_ms=self.ended_ms,
            error=self.error,
            settled=self.settled,
            total=self.total,
        )


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """What is known of a node's way."""

    times: int  # that it was handed out
    sent_ms: int | None
    began_ms: int | None
    ended_ms: int | None
    raised: bool


@dataclass(frozen=True, slots=True)
class Stopped:
    """Whether what a node gave says that it was stopped, whether it needs another id to run again, and how
    often its run had been resumed when it began.
    """

    stopped: bool
    renewed: bool
    resumes: int

    def arguments(self) -> tuple[int, int, int]:
        return int(self.stopped), int(self.renewed), self.resumes


def standing_of(reply: object) -> Standing | None:
    if reply is None:
        return None
    state, deadline, resumes, headers, handed, *tended = cast("list[bytes]", reply)
    now, given_up = tended or (b"0", b"")
    messages = [
        Handed(text(node), integer(attempt), Specification.parse(decode(spec)))
        for node, attempt, spec in cast("list[list[bytes]]", handed)
    ]
    whose = cast(JsonObject, decode(headers))
    lost = tuple((text(node), integer(attempt)) for node, attempt in cast("list[list[bytes]]", given_up))
    return Standing(
        cast(GraphState, text(state)),
        integer(deadline),
        integer(resumes),
        whose,
        tuple(messages),
        integer(now),
        lost,
    )


def given_of(reply: object) -> Given | Refusal:
    if reply is None:
        return "unknown"
    verdict, *values = cast("list[bytes]", reply)
    if verdict != b"run":
        return cast(Refusal, text(verdict))
    if None in values:  # erased in between
        return "unknown"
    spec, deadline, resumes, given, *outputs = values
    specification = Specification.parse(decode(spec))
    known = zip(specification.dependencies, map(decode, outputs), strict=True)
    return Given(specification, integer(deadline), integer(resumes), decode(given), dict(known))


def times_of(fields: Sequence[bytes | None]) -> NodeTimes:
    times, sent, began, ended = (None if value is None else integer(value) for value in fields[:4])
    return NodeTimes(times or 0, sent, began, ended, fields[4] is not None)


def state_of(reply: object) -> GraphState | None:
    return None if reply is None else cast(GraphState, text(reply))


def integer(value: object) -> int:
    return int(cast("bytes | str | int", value))
