"""Runs of loops in the broker's database: the loop, its state between iterations, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.json_values import JsonObject, JsonValue, decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.pipelines.base import Outline
from ditto_tasks.pipelines.graph_reading import SCRIPTS, read_fields
from ditto_tasks.pipelines.graph_records import asked_digest
from ditto_tasks.pipelines.graph_values import GraphState, integer, state_of
from ditto_tasks.redis_replies import text
from ditto_tasks.state.operations import erased
from ditto_tasks.task_events import EVENTS_TTL_MS

HEAD: Final = (
    "state",
    "name",
    "iteration",
    "resumes",
    "opened",
    "deadline",
    "ended",
    "scope",
    "headers",
    "error",
)
WHOLE: Final = (*HEAD, "request", "value")


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
class LoopHead:
    """A run as it stands, without its loop and state. Times are ms since the epoch, by the server's clock."""

    run: str
    state: GraphState
    name: str
    iteration: int  # from 0; as many have ended
    resumes: int  # how often it was resumed
    opened_ms: int
    deadline_ms: int
    ended_ms: int | None
    now_ms: int
    scope: JsonObject | None
    headers: JsonObject
    error: JsonObject | None

    @property
    def left_ms(self) -> int:
        """The time until the deadline."""
        return self.deadline_ms - self.now_ms

    def stands_as(self, seen: LoopHead) -> bool:
        """Whether it is as it was seen: it has not ended, gone on nor been resumed since."""
        return (self.state, self.iteration, self.resumes) == (seen.state, seen.iteration, seen.resumes)

    @property
    def outline(self) -> Outline:
        return Outline(
            name=self.name,
            state=self.state,
            opened_ms=self.opened_ms,
            deadline_ms=self.deadline_ms,
            ended_ms=self.ended_ms,
            error=self.error,
            settled=self.iteration,
            kind="loop",
        )


@dataclass(frozen=True, slots=True)
class LoopRecord:
    """The whole of a run."""

    head: LoopHead
    loop: JsonObject
    value: JsonValue  # the loop's state
    shard: int
    concurrency: int
    max_iterations: int


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
            "shard": opening.shard,
            "concurrency": opening.concurrency,
            "maxIterations": opening.max_iterations,
        }
        fields = {
            "request": encode(asked),
            "scope": encode(opening.scope),
            "headers": encode(opening.headers),
            "value": encode(opening.state),
        }
        digest = asked_digest(*fields.values())
        flat = [part for field in fields.items() for part in field]
        run = opening.run
        keys = [self._keys.loop(run), self._keys.loops(opening.shard), self._keys.erased_root(run)]
        times = opening.timeout_ms, self.ttl_ms
        about = "digest", digest, "name", str(opening.loop["name"])
        known = self._run("loop_open", keys, run, *times, *about, *flat)
        if known is None:
            raise erased()
        return text(known) == digest

    def step(self, run: str, iteration: int, value: JsonValue, *, done: bool) -> GraphState | None:
        """Record what an iteration made of the state; the first one stands. The run's state."""
        event = encode({"iteration": iteration + 1, "status": "finished"})
        about = iteration, encode(value), "done" if done else "running", event, EVENTS_TTL_MS
        return state_of(self._run("loop_step", self._with_events(run), *about))

    def end(self, seen: LoopHead, state: GraphState, error: JsonObject) -> bool:
        """End a run that is as it was seen; True if this ended it.

        One that has ended, gone on to another iteration or was resumed since is left alone.
        """
        about = state, encode(error), encode({"status": state}), EVENTS_TTL_MS, seen.iteration, seen.resumes
        return self._run("loop_end", self._with_events(seen.run), *about) == 1

    def resume(self, run: str, timeout_ms: int, resumes: int) -> None:
        """Let a run that failed or was cancelled go on under a new deadline, resumed so often with this.

        One that is running or done, or was resumed so often already, stays as it is.
        """
        event = encode({"status": "resumed"})
        about = run, timeout_ms, self.ttl_ms, resumes, event, EVENTS_TTL_MS
        self._run("loop_resume", self._with_events(run), *about)

    def announced(self, run: str, resumes: int) -> None:
        """Note that whoever waits was told of the end after so many resumes: nobody looks after the run."""
        self._run("loop_announced", [self._keys.loop(run)], run, resumes)

    def head(self, run: str) -> LoopHead | None:
        """How a run stands; the loop and its state are not read."""
        now_ms, fields = self._read(run, HEAD)
        return _head(run, now_ms, fields) if fields else None

    def load(self, run: str) -> LoopRecord | None:
        """The whole record."""
        now_ms, fields = self._read(run, WHOLE)
        return _record(_head(run, now_ms, fields), fields) if fields else None

    def tracked(self, shard: int) -> list[str]:
        """The runs whose end was not announced yet, the nearest deadline first."""
        with self.clients() as client:
            return [member.decode() for member in client.zrange(self._keys.loops(shard), 0, -1)]

    def forget(self, run: str, shard: int) -> None:
        """Take a run off the list; its record stays until its TTL ends it."""
        with self.clients() as client:
            client.zrem(self._keys.loops(shard), run)

    def _read(self, run: str, names: Sequence[str]) -> tuple[int, dict[str, bytes]]:
        with self.clients() as client:
            now_ms, values = read_fields(client, self._keys.loop(run), names)
        return now_ms, {name: value for name, value in zip(names, values, strict=True) if value is not None}

    def _run(self, script: str, keys: Sequence[str], *args: str | bytes | int) -> object:
        with self.clients() as client:
            return run_script(client, SCRIPTS, script, keys, *args)

    def _with_events(self, run: str) -> list[str]:
        return [self._keys.loop(run), self._keys.events(run)]

    @property
    def _keys(self) -> Keys:
        return Keys(self.deployment)


def _head(run: str, now_ms: int, fields: Mapping[str, bytes]) -> LoopHead:
    return LoopHead(
        run=run,
        state=cast(GraphState, text(fields["state"])),
        name=text(fields["name"]),
        iteration=integer(fields["iteration"]),
        resumes=integer(fields["resumes"]),
        opened_ms=integer(fields["opened"]),
        deadline_ms=integer(fields["deadline"]),
        ended_ms=integer(fields["ended"]) if "ended" in fields else None,
        now_ms=now_ms,
        scope=cast("JsonObject | None", decode(fields["scope"])),
        headers=cast(JsonObject, decode(fields["headers"])),
        error=cast("JsonObject | None", decode(fields.get("error", b"null"))),
    )


def _record(head: LoopHead, fields: Mapping[str, bytes]) -> LoopRecord:
    asked = cast(JsonObject, decode(fields["request"]))
    return LoopRecord(
        head=head,
        loop=cast(JsonObject, asked["loop"]),
        value=decode(fields["value"]),
        shard=cast(int, asked["shard"]),
        concurrency=cast(int, asked["concurrency"]),
        max_iterations=cast(int, asked["maxIterations"]),
    )
