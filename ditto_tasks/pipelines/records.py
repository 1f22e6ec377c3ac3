"""Pipeline records in the broker's database: one hash a pipeline, one sorted set a shard.

Each operation is one script, so that it is one round trip and atomic; results are opaque to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.json_values import JsonObject, JsonValue, decode, encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.models import from_wire, to_wire
from ditto_tasks.pipelines.base import END, Begun, Outline, PipelineRecord, RunState
from ditto_tasks.pipelines.models import AnswerRequest, FlowRequest, RunRequest
from ditto_tasks.pipelines.plan import steps_of
from ditto_tasks.state.operations import erased
from ditto_tasks.task_events import EVENTS_TTL_MS

_RESULT: Final = b"result:"
_BEGAN: Final = b"began:"


class FieldClient(BrokerClient, Protocol):
    """What reading single fields needs of a client beside that."""

    def hmget(self, name: str, keys: Sequence[str]) -> list[bytes | None]: ...
    def hkeys(self, name: str) -> list[bytes]: ...


@dataclass(frozen=True, slots=True)
class PipelineRecords:
    """Implements StepRecords and TrackedRecords; `clients` lends a client of the broker's database."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]
    ttl_ms: int  # how long after its deadline a record is kept

    def open(self, pipeline: str, request: RunRequest, *, shard: int, deadline_ms: int) -> int:
        """Record a new pipeline that has `deadline_ms` from now; returns when that is, since the epoch.

        ERASED if its session or tenant was erased after it was admitted.
        """
        last, flow, total = _extent(request, pipeline)
        keys = [self._record(pipeline), self._list(shard), Keys(self.deployment).erased_root(pipeline)]
        wire = encode(to_wire(request))
        deadline = self._run("open", keys, pipeline, wire, last, deadline_ms, self.ttl_ms, flow, total)
        if deadline is None:
            raise erased()
        return _int(deadline)

    def begin(self, pipeline: str, step: str) -> Begun | None:
        event = encode({"step": step, "status": "started"})
        found = self._run("begin", self._with_events(pipeline), step, event, EVENTS_TTL_MS)
        if found is None:
            return None
        state, last, result = cast("tuple[bytes, bytes, bytes | None]", found)
        value = None if result is None else decode(result)
        return Begun(_state(state), last.decode(), result is not None, value)

    def beat(self, pipeline: str) -> None:
        self._run("beat", [self._record(pipeline)])

    def finish(self, pipeline: str, step: str, result: JsonValue) -> JsonValue:
        event = encode({"step": step, "status": "finished"})
        given = encode(result)
        stands = self._run("finish", self._with_events(pipeline), step, given, event, EVENTS_TTL_MS)
        return result if stands == given else decode(cast(bytes, stands))

    def settle(self, pipeline: str, state: RunState, error: JsonObject | None = None) -> RunState | None:
        event = encode({"status": state})
        keys = self._with_events(pipeline)
        stands = self._run("settle", keys, state, encode(error), event, EVENTS_TTL_MS)
        return None if stands is None else _state(cast(bytes, stands))

    def announced(self, pipeline: str) -> None:
        self._run("announced", [self._record(pipeline)], pipeline)

    def resend(self, pipeline: str) -> None:
        self._run("resend", [self._record(pipeline)])

    def load(self, pipeline: str) -> PipelineRecord | None:
        now, pairs = cast("tuple[bytes, list[bytes]]", self._run("load", [self._record(pipeline)]))
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return _record(pipeline, _int(now), fields) if fields else None

    def outline(self, pipeline: str) -> Outline | None:
        """What a listing shows; results and the request are not read."""
        names = "state", "flow", "total", "opened", "deadline", "ended", "error"
        with self.clients() as lent:
            client = cast(FieldClient, lent)
            values = dict(zip(names, client.hmget(self._record(pipeline), names), strict=True))
            known = client.hkeys(self._record(pipeline))
        return None if values["state"] is None else _outline(values, known)

    def tracked(self, shard: int) -> list[str]:
        with self.clients() as client:
            return [member.decode() for member in client.zrange(self._list(shard), 0, -1)]

    def forget(self, pipeline: str, shard: int) -> None:
        with self.clients() as client:
            client.zrem(self._list(shard), pipeline)

    def _run(self, script: str, keys: Sequence[str], *args: str | bytes | int) -> object:
        with self.clients() as client:
            return run_script(client, "ditto_tasks.pipelines", script, keys, *args)

    def _record(self, pipeline: str) -> str:
        return Keys(self.deployment).pipeline(pipeline)

    def _list(self, shard: int) -> str:
        return Keys(self.deployment).pipelines(shard)

    def _with_events(self, pipeline: str) -> list[str]:
        return [self._record(pipeline), Keys(self.deployment).events(pipeline)]


def _extent(request: RunRequest, pipeline: str) -> tuple[str, str, str | int]:
    """The last step, the flow and the number of steps, as far as there is one and it is known."""
    if isinstance(request, FlowRequest):
        return END, request.flow, ""
    steps = steps_of(request, pipeline)
    return steps[-1].name, "", len(steps)


def _outline(values: Mapping[str, bytes | None], fields: Sequence[bytes]) -> Outline:
    state, flow = _state(values["state"] or b""), (values["flow"] or b"").decode()
    # what has ended without a result ended the pipeline
    settled = (_RESULT,) if state == "running" else (_RESULT, _BEGAN)
    steps = {field.partition(b":")[2] for field in fields if field.startswith(settled)}
    return Outline(
        name=flow or "answer",
        state=state,
        opened_ms=_int(values["opened"] or 0),
        deadline_ms=_int(values["deadline"]),
        ended_ms=_int(values["ended"]) if values["ended"] else None,
        error=cast("JsonObject | None", decode(values["error"] or b"null")),
        settled=len(steps - {END.encode()}),
        total=_int(values["total"]) if values["total"] else None,
        kind="flow" if flow else "answer",
    )


def _record(pipeline: str, now_ms: int, fields: Mapping[bytes, bytes]) -> PipelineRecord:
    deadline = _int(fields[b"deadline"])
    request = _request(decode(fields[b"request"]))
    results = {step: decode(value) for step, value in _under(_RESULT, fields)}
    return PipelineRecord(
        pipeline=pipeline,
        request=request.model_copy(update={"deadline_ms": deadline}),
        state=_state(fields[b"state"]),
        deadline_ms=deadline,
        now_ms=now_ms,
        active_ms=_int(fields[b"active"]),
        resent=_int(fields[b"resent"]),
        results=results,
        error=cast("JsonObject | None", decode(fields.get(b"error", b"null"))),
        opened_ms=_int(fields.get(b"opened", 0)),
        ended_ms=_int(fields[b"ended"]) if b"ended" in fields else None,
        began={step: _int(value) for step, value in _under(_BEGAN, fields)},
        ended={step: _int(value) for step, value in _under(b"ended:", fields)},
    )


def _under(prefix: bytes, fields: Mapping[bytes, bytes]) -> Iterator[tuple[str, bytes]]:
    return ((key[len(prefix) :].decode(), value) for key, value in fields.items() if key.startswith(prefix))


def _request(wire: JsonValue) -> RunRequest:
    kind = FlowRequest if isinstance(wire, dict) and "flow" in wire else AnswerRequest
    return cast(RunRequest, from_wire(kind, wire))


def _state(value: bytes) -> RunState:
    return cast(RunState, value.decode())


def _int(value: object) -> int:
    return int(cast("bytes | str | int", value))
