"""Shards, workers and their health as others may read them: `ditto shards`, `ditto health`, metrics."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from ditto_tasks.json_values import InvalidJson, JsonValue, decode
from ditto_tasks.keys import Keys
from ditto_tasks.redis_replies import clock_ms, text
from ditto_tasks.sharding import DEPLOYMENT_KEY, shard_queue
from ditto_tasks.task import OPTIONS_KEY
from ditto_tasks.worker.keys import SCOPE_HEADER, SENT_HEADER, dead_key, inflight_key

if TYPE_CHECKING:
    from redis import Redis

READS: Final = 6  # commands a shard, in `_read`


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard at one moment. Ages are in ms by the server's clock; None: not known or nothing there."""

    shard: int
    owner: str | None
    epoch: int
    depth: int  # messages that wait, without the one in work
    running_ms: int | None  # how long the message in work has run
    head_scope: str | None  # scope hash of the message in work, else of the next one
    oldest_ms: int | None  # since the oldest message was sent, by its sender's clock
    deaths: int  # workers that died with the head
    dead: int
    moves: int  # times that it came to another worker


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker last said of itself."""

    owner: str
    hostname: str
    host: str
    pid: int
    takes_shards: bool
    shards: int
    loop_age_ms: int  # since its consumer loop last ticked
    paused: bool


def read_shards(client: Redis, keys: Keys, count: int) -> list[ShardRow]:
    """All shards, in one round trip."""
    with client.pipeline(transaction=False) as pipe:
        pipe.time()
        for shard in range(count):
            queue = shard_queue(shard)
            pipe.get(keys.lease(shard))
            pipe.hmget(keys.shard(shard), ["epoch", "started", "deaths", "moves"])
            pipe.llen(queue)
            pipe.lindex(inflight_key(shard), 0)
            pipe.lindex(queue, -1)
            pipe.llen(dead_key(queue))
        time, *answers = pipe.execute()
    now_ms = clock_ms(time)
    return [_row(shard, answers[shard * READS : (shard + 1) * READS], now_ms) for shard in range(count)]


def _row(shard: int, answers: list[object], now_ms: int) -> ShardRow:
    owner, known, depth, in_flight, waiting, dead = answers
    epoch, started, deaths, moves = cast("list[bytes | None]", known)
    head = in_flight or waiting
    sent = sent_ms(head) if isinstance(head, bytes) else None
    return ShardRow(
        shard=shard,
        owner=None if owner is None else text(owner),
        epoch=int(epoch or 0),
        depth=int(depth),  # type: ignore[call-overload]  # the answer of LLEN
        running_ms=max(0, now_ms - int(started)) if in_flight and started else None,
        head_scope=_scope(head) if isinstance(head, bytes) else None,
        oldest_ms=max(0, now_ms - sent) if sent is not None else None,
        deaths=int(deaths or 0),
        dead=int(dead),  # type: ignore[call-overload]  # as above
        moves=int(moves or 0),
    )


def read_shard_count(client: Redis, keys: Keys) -> int | None:
    """The deployment's number of shards, or None before anybody used it."""
    stored = client.get(keys.shard_count)
    return int(stored) if stored is not None else None


def read_deployment(client: Redis) -> str | None:
    """Whose shards are in this broker's database, or None before anybody used them."""
    stored = client.get(DEPLOYMENT_KEY)
    return None if stored is None else text(stored)


def read_workers(client: Redis, keys: Keys) -> list[WorkerReport]:
    """The reports of all workers that are alive, those without shards included."""
    found = list(client.scan_iter(match=keys.worker("*"), count=1_000))
    stored = client.mget(found) if found else []
    return [WorkerReport(**decode(raw)) for raw in stored if raw is not None]  # type: ignore[arg-type]  # our own writing


def sent_ms(raw: bytes) -> int | None:
    """When a message was sent, by its sender's clock."""
    sent = _headers(raw).get(SENT_HEADER)
    return sent if type(sent) is int else None


def deadline_ms(raw: bytes) -> int | None:
    """The option deadlineMs of a message, or None if it has none or can't be read."""
    try:
        envelope = cast("Any", decode(raw))
        _, wire, _ = cast("Any", decode(b64decode(envelope["body"])))
        found = wire[OPTIONS_KEY]["deadlineMs"]
    except (InvalidJson, ValueError, KeyError, TypeError):  # whatever else stands in a queue
        return None
    return found if type(found) is int else None


def _scope(raw: bytes) -> str | None:
    found = _headers(raw).get(SCOPE_HEADER)
    return found if isinstance(found, str) else None


def _headers(raw: bytes) -> Mapping[str, JsonValue]:
    try:
        envelope = decode(raw)
    except InvalidJson:
        return {}
    headers = envelope.get("headers") if isinstance(envelope, Mapping) else None
    return headers if isinstance(headers, Mapping) else {}
