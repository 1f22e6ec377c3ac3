"""Erasure of what a session or tenant has in the broker's and the results' databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from ditto_tasks.belongings import CALL, EFFECT, GROUP, ROW, TASK
from ditto_tasks.cli.deployment import OpenDeployment
from ditto_tasks.coordination import CANCEL_TTL_MS
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import decode
from ditto_tasks.keys import Keys
from ditto_tasks.models import Scope
from ditto_tasks.redis_replies import text
from ditto_tasks.state.erasure import TOMBSTONE_TTL_MS, ContextSubject
from ditto_tasks.worker.consumer import read_body
from ditto_tasks.worker.dead_letters import DeadLetter, ReadingChannel, drop, letters
from ditto_tasks.worker.guard import open_envelope

if TYPE_CHECKING:
    from redis import Redis

Entries: TypeAlias = list[tuple[bytes, dict[bytes, bytes]]]

PAGE: Final = 500  # keys a round trip
RESULT: Final = "celery-task-meta-"
GROUP_RESULT: Final = "celery-taskset-meta-"
SESSION: Final = "session:"


@dataclass
class Found:
    """What belongs to a subject; keys by kind."""

    keys: dict[str, list[str]] = field(default_factory=dict)  # of the broker's database
    results: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    pipelines: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)  # (hash, field)
    deliveries: set[str] = field(default_factory=set)
    letters: list[DeadLetter] = field(default_factory=list)


class RecordErasure:
    """Erases calls: their pipelines, results, events, effects, cache entries, batch rows and dead letters."""

    def __init__(self, deployment: OpenDeployment, results: Redis, subject: ContextSubject) -> None:
        self._queues = deployment.queues()
        self._broker = deployment.broker
        self._results = results
        self._names = Keys(deployment.app.settings.connections.deployment)
        self._subject = subject

    def mark(self) -> None:
        """From now on no call of the session or tenant is published."""
        self._broker.set(self._names.erased(self._subject.owner), "1", px=TOMBSTONE_TTL_MS)

    def find(self) -> Found:
        """Everything of theirs, by the lists that were kept of it."""
        lists = [self._names.owned(self._subject.owner)]
        members = self._members(lists)
        sessions = [self._names.owned(name) for name in members if name.startswith(SESSION)]
        members += self._members(sessions)
        roots = _named(members, CALL)
        causes = [self._names.caused(root) for root in roots]
        caused_members = self._members(causes)
        found = Found(tasks=list(dict.fromkeys([*roots, *_named(caused_members, TASK)])))
        found.rows = [_row(name) for name in _named(members, ROW)]
        found.pipelines = roots
        found.keys = self._found_keys(found, roots, _named(caused_members, EFFECT))
        found.keys["lists"] = [*lists, *sessions, *causes]
        found.results = [RESULT + task for task in found.tasks]
        for group in _named(caused_members, GROUP):
            found.results += [f"{GROUP_RESULT}{group}{part}" for part in ("", ".j", ".t", ".s")]
        found.deliveries = set(self._delivered(found.keys["effects"]))
        found.letters = [each for each in self._dead() if self._is_theirs(each, set(found.tasks))]
        return found

    def erase(self, found: Found) -> None:
        """Remove it; tasks that have not run yet are cancelled."""
        for root in found.pipelines:
            self._broker.set(self._names.cancel_root(root), "1", px=CANCEL_TTL_MS)
        for pipeline in found.pipelines:
            tracked = self._broker.hget(self._names.pipeline(pipeline), "list")
            if tracked:
                self._broker.zrem(text(tracked), pipeline)
        for key, name in found.rows:
            self._broker.hdel(key, name, f"plan:{name}")
        for letter in found.letters:
            drop(self._broker, letter)
        for entry in self._outputs(found.deliveries):
            self._broker.xdel(self._names.output, entry)
        _delete(self._results, found.results)
        _delete(self._broker, [key for keys in found.keys.values() for key in keys])

    def remaining(self, found: Found) -> dict[str, int]:
        """What of it is there now, by kind."""
        counts = {kind: _existing(self._broker, keys) for kind, keys in found.keys.items() if kind != "lists"}
        counts["results"] = _existing(self._results, found.results)
        counts["batch rows"] = sum(bool(self._broker.hexists(key, name)) for key, name in found.rows)
        counts["outputs"] = len(self._outputs(found.deliveries))
        gone = set(found.tasks)
        counts["dead letters"] = sum(self._is_theirs(letter, gone) for letter in self._dead())
        return counts

    def _found_keys(self, found: Found, roots: Sequence[str], effects: Sequence[str]) -> dict[str, list[str]]:
        cache = self._names.cached("of", self._subject.owner)
        entries = self._members([cache])
        return {
            "calls": [self._names.tenant(task) for task in found.tasks],
            "pipelines": [self._names.pipeline(root) for root in roots],
            "traces": [self._names.trace(root) for root in roots],
            "events": [self._names.events(task) for task in found.tasks],
            "effects": list(effects),
            "cache entries": [*entries, *([cache] if entries else [])],
        }

    def _members(self, lists: Iterable[str]) -> list[str]:
        return [text(name) for key in lists for name in cast("list[bytes]", self._broker.zrange(key, 0, -1))]

    def _delivered(self, effects: Iterable[str]) -> Iterator[str]:
        """The ids of outputs that these effects handed over."""
        for key in effects:
            result = self._broker.hget(key, "result")
            receipt = decode(result) if result else None
            if isinstance(receipt, dict) and isinstance(receipt.get("deliveryId"), str):
                yield str(receipt["deliveryId"])

    def _outputs(self, deliveries: set[str]) -> list[str]:
        """Entries of the outputs' stream that stand for these deliveries."""
        entries = cast("Entries", self._broker.xrange(self._names.output) if deliveries else [])
        return [text(entry) for entry, fields in entries if text(fields[b"deliveryId"]) in deliveries]

    def _dead(self) -> Iterator[DeadLetter]:
        return letters(self._broker, self._queues)

    def _is_theirs(self, letter: DeadLetter, tasks: set[str]) -> bool:
        if letter.task_id in tasks:
            return True
        scope = _scope_of(letter)
        return scope is not None and self._subject.covers(scope)


def _scope_of(letter: DeadLetter) -> Scope | None:
    if letter.message is None:
        return None
    envelope = open_envelope(letter.message.encode(), letter.queue)
    body = read_body(ReadingChannel().read(envelope))  # type: ignore[arg-type]  # its base class
    try:
        return None if body is None else Scope.parse(body[1].get("scope"))
    except DittoError:
        return None


def _row(member: str) -> tuple[str, str]:
    key, scope, digest = member.rsplit(":", 2)
    return key, f"{scope}:{digest}"


def _named(members: Iterable[str], kind: str) -> list[str]:
    return [name.removeprefix(kind) for name in members if name.startswith(kind)]


def _delete(client: Redis, keys: Sequence[str]) -> None:
    for start in range(0, len(keys), PAGE):
        client.delete(*keys[start : start + PAGE])


def _existing(client: Redis, keys: Sequence[str]) -> int:
    return sum(client.exists(*keys[start : start + PAGE]) for start in range(0, len(keys), PAGE))
