"""Runs of loops in the broker's database: the loop, its state between iterations, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.json_values import JsonObject, JsonValue, decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.pipelines.base import Outline
from ditto_tasks.pipelines.graph_records import SCRIPTS, RecordClient, asked_digest
from ditto_tasks.pipelines.graph_values import GraphState, integer, state_of
from ditto_tasks.redis_replies import text
from ditto_tasks.state.operations import erased
from ditto_tasks.task_events import EVENTS_TTL_MS


@dataclass(frozen=True, slots=True)
class LoopOpening:
    """A run of a loop that is to be recorded."""

    run: str
    loop: JsonObject  # in wire form
    state: JsonValue
    shard: int
    timeout_ms: int
    concurrency: int
    max_iterations: int
    scope: JsonObject | None
    headers: JsonObject


@dataclass(frozen=True, slots=True)
class LoopRecord:
    """A run as it stands. Times are milliseconds since the epoch, by the server's clock."""

    run: str
    loop: JsonObject
    value: JsonValue  # the loop's state
    iteration: int  # from 0; as many have ended
    state: GraphState
    deadline_ms: int
    now_ms: int
    opened_ms: int
    ended_ms: int | None
    shard: int
    concurrency: int
    max_iterations: int
    scope: JsonObject | None
    headers: JsonObject
    error: JsonObject | None


@dataclass(frozen=True, slots=True)
class LoopRecords:
    """`clients` lends a client of the broker's database. No call but `open` creates a record."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]
    ttl_ms: int  # how long after its deadline a run is kept

    def open(self, opening: LoopOpening) -> bool:
        """Record a new run; False if one of this id is there that was asked something else. Idempotent."""
        asked: JsonObject = {
            "loop": opening.loop,
            "scope": opening.scope,
            "headers": opening.headers,
            "shard": opening.shard,
            "concurrency": opening.concurrency,
            "maxIterations": opening.max_iterations,
        }
        run = opening.run
        keys = [self._keys.loop(run), self._keys.loops(opening.shard), self._keys.erased_root(run)]
        request, value = encode(asked), encode(opening.state)
        digest = asked_digest(request, value)
        fields = ("digest", digest, "name", str(opening.loop["name"]), "request", request, "value", value)
        known = self._run("loop_open", keys, run, opening.timeout_ms, self.ttl_ms, *fields)
        if known is None:
            raise erased()
        return text(known) == digest

    def step(self, run: str, iteration: int, value: JsonValue, *, done: bool) -> GraphState | None:
        """Record what an iteration made of the state; the first one stands. The run's state."""
        event = encode({"iteration": iteration + 1, "status": "finished"})
        about = iteration, encode(value), "done" if done else "running", event, EVENTS_TTL_MS
        return state_of(self._run("loop_step", self._with_events(run), *about))

    def end(
        self, run: str, state: GraphState, error: JsonObject, *, seen_deadline_ms: int | None = None
    ) -> bool:
        """End a run that has not ended; True if this ended it.

        With the deadline that was seen a run that was resumed since, and so has another one, is left alone.
        """
        seen = "" if seen_deadline_ms is None else seen_deadline_ms
        about = state, encode(error), encode({"status": state}), EVENTS_TTL_MS, seen
        return self._run("loop_end", self._with_events(run), *about) == 1

    def resume(self, run: str, timeout_ms: int) -> GraphState | None:
        """Let a run that failed or was cancelled go on; the state that it was in."""
        event = encode({"status": "resumed"})
        about = run, timeout_ms, self.ttl_ms, event, EVENTS_TTL_MS
        return state_of(self._run("loop_resume", self._with_events(run), *about))

    def announced(self, run: str) -> None:
        """Note that whoever waits was told of the end: nobody looks after the run, unless it goes on."""
        self._run("loop_announced", [self._keys.loop(run)], run)

    def load(self, run: str) -> LoopRecord | None:
        """The whole record."""
        now, pairs = cast("tuple[bytes, list[bytes]]", self._run("load", [self._keys.loop(run)]))
        fields = dict(zip(map(text, pairs[::2]), pairs[1::2], strict=True))
        return _record(run, integer(now), fields) if fields else None

    def outline(self, run: str) -> Outline | None:
        """What a listing shows; the loop and its state are not read."""
        names = "state", "name", "iteration", "opened", "deadline", "ended", "error"
        with self.clients() as client:
            values = cast(RecordClient, client).hmget(self._keys.loop(run), names)
        state, name, iteration, opened, deadline, ended, error = values
        if state is None or name is None:
            return None
        return Outline(
            name=text(name),
            state=cast(GraphState, text(state)),
            opened_ms=integer(opened),
            deadline_ms=integer(deadline),
            ended_ms=None if ended is None else integer(ended),
            error=cast("JsonObject | None", decode(error or b"null")),
            settled=integer(iteration),
            kind="loop",
        )

    def tracked(self, shard: int) -> list[str]:
        """The runs whose end was not announced yet, the nearest deadline first."""
        with self.clients() as client:
            return [member.decode() for member in client.zrange(self._keys.loops(shard), 0, -1)]

    def forget(self, run: str, shard: int) -> None:
        """Take a run off the list; its record stays until its TTL ends it."""
        with self.clients() as client:
            client.zrem(self._keys.loops(shard), run)

    def _run(self, script: str, keys: Sequence[str], *args: str | bytes | int) -> object:
        with self.clients() as client:
            return run_script(client, SCRIPTS, script, keys, *args)

    def _with_events(self, run: str) -> list[str]:
        return [self._keys.loop(run), self._keys.events(run)]

    @property
    def _keys(self) -> Keys:
        return Keys(self.deployment)


def _record(run: str, now_ms: int, fields: dict[str, bytes]) -> LoopRecord:
    asked = cast(JsonObject, decode(fields["request"]))
    return LoopRecord(
        run=run,
        loop=cast(JsonObject, asked["loop"]),
        value=decode(fields["value"]),
        iteration=integer(fields["iteration"]),
        state=cast(GraphState, text(fields["state"])),
        deadline_ms=integer(fields["deadline"]),
        now_ms=now_ms,
        opened_ms=integer(fields["opened"]),
        ended_ms=integer(fields["ended"]) if "ended" in fields else None,
        shard=cast(int, asked["shard"]),
        concurrency=cast(int, asked["concurrency"]),
        max_iterations=cast(int, asked["maxIterations"]),
        scope=cast("JsonObject | None", asked["scope"]),
        headers=cast(JsonObject, asked["headers"]),
        error=cast("JsonObject | None", decode(fields.get("error", b"null"))),
    )
