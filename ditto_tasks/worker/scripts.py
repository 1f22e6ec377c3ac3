"""Typed calls of the Lua scripts that move leases and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Final, Literal

from ditto_tasks.keys import Keys
from ditto_tasks.lines import Argument, Lines, ScriptCall
from ditto_tasks.redis_replies import text
from ditto_tasks.sharding import DEPLOYMENT_KEY, shard_queue
from ditto_tasks.worker.keys import dead_key, inflight_key

if TYPE_CHECKING:
    from redis import Redis

SUSPECT_DEATHS: Final = 2  # workers that died with a message before it has to run apart from other suspects
BURIAL_DEATHS: Final = 3  # workers that died with a message before it goes to the dead letters

Settle = Literal["ack", "back"]


class Nothing(Enum):
    """Why `next` gave no message."""

    EMPTY = b"empty"
    SUSPECT = b"suspect"  # the head has killed workers before and has to wait for another such message
    FENCED = b"fenced"  # somebody else took the shard since


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that is in flight now; `seq` names it when it is settled."""

    message: bytes
    seq: str
    deaths: int
    tried: bool  # it was in work before, so that its operation may have been committed

    @property
    def is_dead(self) -> bool:
        return self.deaths >= BURIAL_DEATHS


@dataclass(frozen=True, slots=True)
class InFlight:
    """The name of a message in flight; `on_free` is called if none of the marks exists when it starts."""

    shard: int
    epoch: int
    seq: str
    marks: tuple[str, ...] = ()
    on_free: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Who holds a shard, and under which epoch."""

    epoch: int
    owner: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The deployment as a worker finds it when it reports to be alive."""

    deployment: str
    shard_count: int
    workers: tuple[str, ...]


class ShardScripts:
    """What one worker process does to leases and shard queues. Thread-safe if its client is."""

    def __init__(self, client: Redis, keys: Keys, *, owner: str, lease_ms: int) -> None:
        self._client = client
        self._keys = keys
        self.deployment = keys.deployment
        self._owner = owner
        self._lease_ms = lease_ms
        self.lines = Lines(client)
        self._script = {path.name[:-4]: ScriptCall.of(path.read_text("utf-8")) for path in _lua_files()}

    def heartbeat(self, shard_count: int) -> Heartbeat:
        """Report to be alive; says whose shards these are, and how many, if nobody has said so yet."""
        keys = [self._keys.workers, self._keys.shard_count, DEPLOYMENT_KEY]
        about: list[str | int] = [self._owner, self._lease_ms, self._keys.changes]
        deployment, count, *workers = self._run("heartbeat", keys, [*about, shard_count, self.deployment])
        return Heartbeat(deployment.decode(), int(count), tuple(worker.decode() for worker in workers))

    def leave(self) -> None:
        """Stop counting as alive, and tell the others."""
        self._run("leave", [self._keys.workers], [self._owner, self._keys.changes])

    def owners(self, shard_count: int) -> Mapping[int, str]:
        """Who holds which shard now; shards that nobody holds are left out."""
        found = self._client.mget([self._keys.lease(shard) for shard in range(shard_count)])
        return {shard: text(owner) for shard, owner in enumerate(found) if owner}

    def claim(self, shards: Iterable[int]) -> Mapping[int, Claim]:
        """Take or renew leases, all in one round trip. Idempotent."""
        wanted = list(shards)
        arguments: list[Argument] = [self._owner, self._lease_ms]
        calls = [self._script["claim"].bind(self._lease_keys(shard), arguments) for shard in wanted]
        answers = self.lines.run(*calls)
        found = zip(wanted, answers, strict=True)
        return {shard: Claim(int(epoch), owner.decode()) for shard, (epoch, owner) in found}

    def release(self, shard: int) -> None:
        """Give a shard up; a message in flight goes back to the head."""
        self._run("release", self._lease_keys(shard), [self._owner, self._keys.changes])

    def renew_epoch(self, shard: int, epoch: int) -> int | None:
        """Keep the shard under a new epoch, its message back at the head; None if it is no longer held."""
        answer = self._run("renew_epoch", self._lease_keys(shard), [self._owner, epoch])
        return int(answer) if answer else None

    def next(
        self,
        shard: int,
        epoch: int,
        *,
        settle: tuple[str, Settle] | None = None,
        take: bool = True,
        starts: bool = True,
        suspects: bool = False,
        also_started: InFlight | None = None,
    ) -> Taken | Nothing:
        """Settle a message by its seq, and take the next one if `take`. Idempotent.

        `starts`: a thread is free, so the message counts as started at once. `suspects`: the caller
        runs no other suspect. `also_started`: another message, which the caller's thread will start.
        """
        seq, how = settle or ("", "ack")
        keys = [self._keys.shard(shard), shard_queue(shard), inflight_key(shard)]
        flags = [int(take), int(starts), int(suspects), SUSPECT_DEATHS, BURIAL_DEATHS]
        calls = [self._script["next"].bind(keys, [epoch, seq, how, *flags])]
        if also_started is not None:
            calls.append(self._start(also_started))
        (answer, *message), *started = self.lines.run(*calls)
        if also_started is not None:
            _tell_if_free(also_started, started[0])
        return _taken(message) if message else Nothing(answer)

    def start(self, message: InFlight) -> None:
        """Mark a message in flight as started."""
        (answer,) = self.lines.run(self._start(message))
        _tell_if_free(message, answer)

    def bury(self, shard: int, epoch: int, seq: str, entry: bytes) -> bool:
        """Move the message in flight to the dead letters; False if it is in flight no more."""
        queue = shard_queue(shard)
        keys = [self._keys.shard(shard), inflight_key(shard), dead_key(queue)]
        return bool(self._run("bury", keys, [epoch, seq, entry]))

    def report(self, health: bytes) -> None:
        """Publish this worker's health; it counts for two leases."""
        self._client.set(self._keys.worker(self._owner), health, px=2 * self._lease_ms)

    def withdraw_report(self) -> None:
        """This worker is no more."""
        self._client.delete(self._keys.worker(self._owner))

    def _run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:  # what it answers
        (answer,) = self.lines.run(self._script[name].bind(keys, arguments))
        return answer

    def _start(self, message: InFlight) -> ScriptCall:
        keys = [self._keys.shard(message.shard), inflight_key(message.shard), *message.marks]
        return self._script["start"].bind(keys, [message.epoch, message.seq])

    def _lease_keys(self, shard: int) -> list[str]:
        lease, state = self._keys.lease(shard), self._keys.shard(shard)
        return [lease, state, shard_queue(shard), inflight_key(shard)]


def _tell_if_free(message: InFlight, answer: int) -> None:
    if answer == 1 and message.marks and message.on_free is not None:
        message.on_free()


def _taken(answer: Sequence[bytes]) -> Taken:
    message, seq, deaths, tried = answer
    return Taken(message, seq.decode(), int(deaths), tried == b"1")


def _lua_files() -> list[Traversable]:
    return [path for path in (files("ditto_tasks.worker") / "lua").iterdir() if path.name.endswith(".lua")]
