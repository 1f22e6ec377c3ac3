"""Runs of graphs in the broker's database: a record, its outputs, what is ready and what is in flight.

Each operation is one script, so that it is one round trip and atomic; outputs are opaque to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from ditto_tasks.errors import Cancelled
from ditto_tasks.json_values import JsonObject, encode
from ditto_tasks.keys import GRAPH_PARTS, Keys
from ditto_tasks.lua_running import run_source
from ditto_tasks.lua_source import lua_source
from ditto_tasks.pipelines.graph_plan import stored_fields
from ditto_tasks.pipelines.graph_reading import SCRIPTS, GraphReading
from ditto_tasks.pipelines.graph_values import (
    Given,
    GraphState,
    Opening,
    Refusal,
    Standing,
    Stopped,
    given_of,
    standing_of,
    state_of,
)
from ditto_tasks.pipelines.outcomes import error_to_wire
from ditto_tasks.redis_replies import text
from ditto_tasks.state.operations import erased
from ditto_tasks.task_events import EVENTS_TTL_MS

CANCELLED: Final = encode(error_to_wire(Cancelled())), encode({"status": "cancelled"})  # how a run ends
MAX_DEATHS: Final = 5  # of workers at one node: any may be killed, but not by chance so often at one


@dataclass(frozen=True, slots=True)
class GraphRecords(GraphReading):
    """What writes to records. No call but `open` creates one."""

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
            ("resumes", opening.resumes),
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
        about = node, attempt, output, *stopped.arguments(), *events, *CANCELLED
        return standing_of(self._run("settle", self._keys_and_stop(run), *about))

    def raised(
        self, run: str, node: str, attempt: int, error: JsonObject, stopped: Stopped
    ) -> GraphState | None:
        """Record that a node raised: its state if this ended the run, "running" if that goes on."""
        events = encode({"step": node, "status": "failed"}), encode({"status": "failed"}), EVENTS_TTL_MS
        about = node, attempt, encode(error), *stopped.arguments(), *events, *CANCELLED
        return state_of(self._run("raise", self._keys_and_stop(run), *about))

    def end(self, run: str, state: GraphState, error: JsonObject, *, resumes: int | None = None) -> bool:
        """End a run that has not ended; True if this ended it. One that was resumed oftener is left alone."""
        seen = "" if resumes is None else resumes
        about = state, encode(error), encode({"status": state}), EVENTS_TTL_MS, seen
        return self._run("end", self._keys(run), *about) == 1

    def resume(self, run: str, timeout_ms: int, resumes: int) -> None:
        """Let a run go on under a new deadline, resumed so often with this.

        One that is done, or was resumed so often already, stays as it is.
        """
        event = encode({"status": "resumed"})
        about = run, timeout_ms, self.ttl_ms, resumes, event, EVENTS_TTL_MS
        nodes = (node for node, _, _ in self.plan(run))  # those that raised are known to the script alone
        self._run("resume", self._keys(run), *about, *nodes)

    def announced(self, run: str, resumes: int) -> None:
        """Note that whoever waits was told of the end after so many resumes: nobody looks after the run."""
        self._run("announced", self._keys(run), run, resumes)

    def tracked(self, shard: int) -> list[str]:
        """The runs whose end was not announced yet, the nearest deadline first."""
        with self.clients() as client:
            return [member.decode() for member in client.zrange(self._list(shard), 0, -1)]

    def forget(self, run: str, shard: int) -> None:
        """Take a run off the list; its record stays until its TTL ends it."""
        with self.clients() as client:
            client.zrem(self._list(shard), run)

    def _run(self, script: str, keys: Sequence[str], *args: str | bytes | int) -> object:
        source, digest = _script(script)
        with self.clients() as client:
            return run_source(client, source, digest, keys, *args)

    def _keys(self, run: str) -> list[str]:
        keys = Keys(self.deployment)
        beside = [keys.graph_part(run, part) for part in GRAPH_PARTS]
        return [keys.graph(run), *beside, keys.events(run)]

    def _keys_and_stop(self, run: str) -> list[str]:
        return [*self._keys(run), Keys(self.deployment).cancel_root(run)]

    def _list(self, shard: int) -> str:
        return Keys(self.deployment).graphs(shard)


def asked_digest(*parts: bytes) -> str:
    """What tells two requests of one id apart."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


@cache
def _script(name: str) -> tuple[str, str]:
    source = lua_source(SCRIPTS, "graph_shared") + lua_source(SCRIPTS, f"graph_{name}")
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
