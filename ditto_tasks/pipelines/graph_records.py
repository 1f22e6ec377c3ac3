"""Runs of graphs in the broker's database: a record, its outputs, what is ready and what is in flight.

Each operation is one script, so that it is one round trip and atomic; outputs are opaque to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Final, Protocol, cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.json_values import JsonObject, JsonValue, decode, encode
from ditto_tasks.keys import GRAPH_PARTS, Keys
from ditto_tasks.lua_running import run_source
from ditto_tasks.lua_source import lua_source
from ditto_tasks.pipelines.graph_plan import stored_fields
from ditto_tasks.pipelines.graph_values import (
    Given,
    GraphState,
    Head,
    NodeTimes,
    Opening,
    Progress,
    Refusal,
    Standing,
    Stopped,
    given_of,
    integer,
    standing_of,
    state_of,
    times_of,
)
from ditto_tasks.redis_replies import clock_ms, text
from ditto_tasks.state.operations import erased
from ditto_tasks.task_events import EVENTS_TTL_MS

SCRIPTS: Final = "ditto_tasks.pipelines"
MAX_DEATHS: Final = 5  # of workers at one node: any may be killed, but not by chance so often at one
PAGE: Final = 50  # outputs read at once: each may be large


class RecordClient(BrokerClient, Protocol):
    """What records of runs need of a client beside that."""

    def hmget(self, name: str, keys: Sequence[str]) -> list[bytes | None]: ...
    def time(self) -> object: ...


@dataclass(frozen=True, slots=True)
class GraphRecords:
    """`clients` lends a client of the broker's database. No call but `open` creates a record."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]
    ttl_ms: int  # how long after its deadline a run is kept

    def open(self, opening: Opening) -> bool:
        """Record a new run; False if one of this id is there that was asked something else. Idempotent."""
        graph, headers, given = opening.graph, encode(opening.headers or {}), encode(opening.input)
        digest = asked_digest(encode(graph.wire_form()), given, headers)
        fields = [
            ("digest", digest),
            *stored_fields(graph, opening.scope),
            ("limit", opening.concurrency),
            ("headers", headers),
            ("parent", opening.parent),
        ]
        times = opening.run, opening.timeout_ms, self.ttl_ms
        tombstone = Keys(self.deployment).erased_root(opening.run)
        keys = [*self._keys(opening.run), self._list(opening.shard), tombstone]
        flat: list[str | bytes | int] = [part for field in fields for part in field]
        known = self._run("open", keys, *times, given, len(graph.ids), *graph.ids, *flat)
        if known is None:
            raise erased()
        return text(known) == digest

    def hand_out(self, run: str) -> Standing | None:
        """Take what may start now; whoever is told publishes it."""
        return standing_of(self._run("hand_out", self._keys(run)))

    def tend(self, run: str, quiet_ms: int) -> Standing | None:
        """The same, and again what has been silent for so long."""
        return standing_of(self._run("tend", self._keys(run), quiet_ms, MAX_DEATHS))

    def begin(
        self, run: str, node: str, attempt: int, *, redelivered: bool, quiet_ms: int
    ) -> Given | Refusal:
        """Begin a node: what it is given, or why this delivery is of no use."""
        event = encode({"step": node, "status": "started"})
        about = node, attempt, int(redelivered), quiet_ms, event, EVENTS_TTL_MS
        return given_of(self._run("begin", self._keys(run), *about))

    def beat(self, run: str, node: str) -> None:
        """Note that a node is still at work."""
        self._run("beat", self._keys(run), node)

    def settle(self, run: str, node: str, attempt: int, output: bytes, stopped: Stopped) -> Standing | None:
        """Record a node's output; the first one stands."""
        events = encode({"step": node, "status": "finished"}), encode({"status": "done"}), EVENTS_TTL_MS
        about = node, attempt, output, *stopped.arguments(), *events
        return standing_of(self._run("settle", self._keys(run), *about))

    def raised(
        self, run: str, node: str, attempt: int, error: JsonObject, stopped: Stopped
    ) -> GraphState | None:
        """Record that a node raised: "failed" if this ended the run, "running" if that goes on."""
        events = encode({"step": node, "status": "failed"}), encode({"status": "failed"}), EVENTS_TTL_MS
        about = node, attempt, encode(error), *stopped.arguments(), *events
        return state_of(self._run("raise", self._keys(run), *about))

    def end(
        self, run: str, state: GraphState, error: JsonObject, *, seen_deadline_ms: int | None = None
    ) -> bool:
        """End a run that has not ended; True if this ended it.

        With the deadline that was seen a run that was resumed since, and so has another one, is left alone.
        """
        seen = "" if seen_deadline_ms is None else seen_deadline_ms
        about = state, encode(error), encode({"status": state}), EVENTS_TTL_MS, seen
        return self._run("end", self._keys(run), *about) == 1

    def resume(self, run: str, timeout_ms: int) -> GraphState | None:
        """Let a run that failed or was cancelled go on; the state that it was in."""
        event = encode({"status": "resumed"})
        about = run, timeout_ms, self.ttl_ms, event, EVENTS_TTL_MS
        return state_of(self._run("resume", self._keys(run), *about, *self.raised_nodes(run)))

    def head(self, run: str) -> Head | None:
        """What the record says of the whole run."""
        names = "state", "graph", "parent", "error", "scope"
        state, graph, parent, *values = self._fields(run, *names)
        if state is None:
            return None
        error, scope = (cast("JsonObject | None", decode(value or b"null")) for value in values)
        return Head(cast(GraphState, text(state)), text(graph or b""), text(parent or b""), error, scope)

    def plan(self, run: str) -> list[tuple[str, str, list[str]]]:
        """(id, node type, dependencies) of each node in the order of declaration; none without a record."""
        (plan,) = self._fields(run, "plan")
        return cast("list[tuple[str, str, list[str]]]", decode(plan or b"[]"))

    def progress(self, run: str) -> Progress | None:
        """How far a run has come, by names and times alone."""
        names = (
            "state",
            "graph",
            "opened",
            "deadline",
            "ended",
            "error",
            "headers",
            "total",
            "todo",
            "failures",
        )
        with self.clients() as lent:
            client = cast(RecordClient, lent)
            fields = dict(zip(names, client.hmget(self._record(run), names), strict=True))
            now_ms = clock_ms(client.time())
        if fields["state"] is None:
            return None
        settled = integer(fields["total"]) - integer(fields["todo"]) + integer(fields["failures"] or 0)
        return Progress(
            state=cast(GraphState, text(fields["state"])),
            graph=text(fields["graph"]),
            opened_ms=integer(fields["opened"]),
            deadline_ms=integer(fields["deadline"]),
            ended_ms=None if fields["ended"] is None else integer(fields["ended"]),
            error=cast("JsonObject | None", decode(fields["error"] or b"null")),
            headers=cast(JsonObject, decode(fields["headers"] or b"{}")),
            total=integer(fields["total"]),
            settled=settled,
            now_ms=now_ms,
        )

    def node_times(self, run: str, nodes: Sequence[str]) -> list[NodeTimes]:
        """When each of these nodes was sent, began and ended, and whether it raised."""
        if not nodes:
            return []
        kinds = ("times", "sent", "began", "ended", "raised")
        found = self._fields(run, *(f"{kind}:{node}" for node in nodes for kind in kinds))
        return [times_of(found[start : start + len(kinds)]) for start in range(0, len(found), len(kinds))]

    def raised_nodes(self, run: str) -> list[str]:
        """The nodes that raised."""
        ids = [node for node, _, _ in self.plan(run)]
        errors = self._fields(run, *(f"raised:{node}" for node in ids)) if ids else []
        return [node for node, error in zip(ids, errors, strict=True) if error is not None]

    def outputs(self, run: str, nodes: Sequence[str]) -> dict[str, JsonValue]:
        """The outputs of those of these nodes that have one."""
        found: dict[str, JsonValue] = {}
        for start in range(0, len(nodes), PAGE):
            page = nodes[start : start + PAGE]
            with self.clients() as client:
                values = cast(RecordClient, client).hmget(self._outputs(run), page)
            found |= {
                node: decode(value) for node, value in zip(page, values, strict=True) if value is not None
            }
        return found

    def announced(self, run: str) -> None:
        """Note that whoever waits was told of the end: nobody looks after the run, unless it goes on."""
        self._run("announced", self._keys(run), run)

    def tracked(self, shard: int) -> list[str]:
        """The runs whose end was not announced yet, the nearest deadline first."""
        with self.clients() as client:
            return [member.decode() for member in client.zrange(self._list(shard), 0, -1)]

    def forget(self, run: str, shard: int) -> None:
        """Take a run off the list; its record stays until its TTL ends it."""
        with self.clients() as client:
            client.zrem(self._list(shard), run)

    def _fields(self, run: str, *names: str) -> list[bytes | None]:
        with self.clients() as client:
            return cast(RecordClient, client).hmget(self._record(run), names)

    def _run(self, script: str, keys: Sequence[str], *args: str | bytes | int) -> object:
        source, digest = _script(script)
        with self.clients() as client:
            return run_source(client, source, digest, keys, *args)

    def _record(self, run: str) -> str:
        return Keys(self.deployment).graph(run)

    def _outputs(self, run: str) -> str:
        return Keys(self.deployment).graph_part(run, "outputs")

    def _keys(self, run: str) -> list[str]:
        keys = Keys(self.deployment)
        beside = [keys.graph_part(run, part) for part in GRAPH_PARTS]
        return [keys.graph(run), *beside, keys.events(run)]

    def _list(self, shard: int) -> str:
        return Keys(self.deployment).graphs(shard)


def asked_digest(*parts: bytes) -> str:
    """What tells two requests of one id apart."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@cache
def _script(name: str) -> tuple[str, str]:
    source = lua_source(SCRIPTS, "graph_shared") + lua_source(SCRIPTS, f"graph_{name}")
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
