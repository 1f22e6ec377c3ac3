"""Erasure of what a session or tenant has in the broker's and the results' databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast, get_args

from ditto_tasks.batch.rows import BEGUN, OVER, PLAN
from ditto_tasks.belongings import CALL, EFFECT, ROW, TASK
from ditto_tasks.cli.deployment import OpenDeployment
from ditto_tasks.cli.result_erasure import (
    FoundResults,
    ResultErasure,
    delete,
    existing,
    fields_of,
    leave_tombstones,
    members_of,
    remove_members,
)
from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import decode
from ditto_tasks.keys import GRAPH_PARTS, Keys
from ditto_tasks.models import Scope
from ditto_tasks.pipelines.run_index import RecordKind
from ditto_tasks.redis_replies import text
from ditto_tasks.state.erasure import ContextSubject
from ditto_tasks.tenants import owner_key, tenant_of
from ditto_tasks.worker.consumer import read_body
from ditto_tasks.worker.dead_letters import DeadLetter, ReadingChannel, drop, letters
from ditto_tasks.worker.guard import open_envelope

if TYPE_CHECKING:
    from redis import Redis

Entries: TypeAlias = list[tuple[bytes, dict[bytes, bytes]]]

RUN_KINDS: Final = get_args(RecordKind)
PAGE: Final = 500  # outputs a round trip
SESSION: Final = "session:"


@dataclass
class Found:
    """What belongs to a subject; keys by kind."""

    keys: dict[str, list[str]] = field(default_factory=dict)  # of the broker's database
    results: FoundResults = field(default_factory=FoundResults)
    tasks: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)  # (hash, field)
    deliveries: set[str] = field(default_factory=set)
    letters: list[DeadLetter] = field(default_factory=list)


class RecordErasure:
    """Erases calls: their pipelines, results, events, effects, cache entries, batch rows and dead letters.

    The lists by which they are found stay until they expire, so that a second run finds what a first one
    may have missed. They hold ids and hashes.
    """

    def __init__(self, deployment: OpenDeployment, results: Redis, subject: ContextSubject) -> None:
        settings = deployment.app.settings
        self._queues = deployment.queues()
        self._broker = deployment.broker
        self._names = Keys(settings.connections.deployment)
        self._results = ResultErasure(
            results, self._names, told_s=settings.runtime.results.expires_ms // 1000
        )
        self._subject = subject

    def mark(self) -> None:
        """From now on no call of the session or tenant is published."""
        self._leave_tombstones([self._names.erased(self._subject.owner)])

    def find(self) -> Found:
        """Everything of theirs, by the lists that were kept of it. From now on their calls leave nothing.

        The calls have tombstones before it is read what they made: what is not read is refused.
        """
        members = members_of(self._broker, [self._names.owned(self._subject.owner)])
        sessions = [self._names.owned(name) for name in members if name.startswith(SESSION)]
        members += members_of(self._broker, sessions)
        roots = _named(members, CALL)
        self._leave_tombstones([self._names.erased_root(root) for root in roots])
        caused = members_of(self._broker, [self._names.caused(root) for root in roots])
        found = Found(tasks=list(dict.fromkeys([*roots, *_named(caused, TASK)])))
        found.rows = [_row(name) for name in _named(members, ROW)]
        found.keys = self._found_keys(found.tasks, _named(caused, EFFECT))
        found.results = self._results.find(roots, found.tasks)
        found.deliveries = set(self._delivered(found.keys["effects"]))
        found.letters = [each for each in self._dead() if self._is_theirs(each, set(found.tasks))]
        return found

    def erase(self, found: Found) -> None:
        """Remove it; tasks that have not run yet will not, and their callers are told."""
        for listed, tasks in self._lists_of(found.tasks).items():
            remove_members(self._broker, listed, tasks)
        for listed in self._lists_of_runs():
            remove_members(
                self._broker, listed, [f"{kind}:{task}" for task in found.tasks for kind in RUN_KINDS]
            )
        for key, name in found.rows:
            self._broker.hdel(key, name, PLAN + name, OVER + name, BEGUN + name)
        for letter in found.letters:
            drop(self._broker, letter)
        for entry in self._outputs(found.deliveries):
            self._broker.xdel(self._names.output, entry)
        delete(self._broker, [key for keys in found.keys.values() for key in keys])
        self._results.erase(found.results)

    def remaining(self, found: Found) -> dict[str, int]:
        """What of it is there now, by kind."""
        counts = {kind: existing(self._broker, keys) for kind, keys in found.keys.items()}
        counts["results"] = self._results.remaining(found.results)
        counts["batch rows"] = sum(bool(self._broker.hexists(key, name)) for key, name in found.rows)
        counts["outputs"] = sum(1 for _ in self._outputs(found.deliveries))
        gone = set(found.tasks)
        counts["dead letters"] = sum(self._is_theirs(letter, gone) for letter in self._dead())
        return counts

    def _lists_of(self, tasks: Sequence[str]) -> Mapping[str, list[str]]:
        """The lists of runs that are looked after, and which of these tasks stand on them."""
        kinds = (self._names.pipeline, self._names.graph, self._names.loop)
        runs = [task for task in tasks for _ in kinds]
        records = [name(task) for task in tasks for name in kinds]
        lists: dict[str, list[str]] = {}
        for run, tracked in zip(runs, fields_of(self._broker, records, "list"), strict=True):
            if tracked:
                lists.setdefault(text(tracked), []).append(run)
        return lists

    def _lists_of_runs(self) -> list[str]:
        subject = self._subject
        tenant = subject.tenant or tenant_of({"sessionId": subject.session})
        owners = [None] if tenant is None else [None, owner_key("tenant", tenant)]
        return [self._names.runs(owner) for owner in owners]

    def _leave_tombstones(self, keys: Sequence[str]) -> None:
        leave_tombstones(self._broker, keys)
        self._results.mark(keys)

    def _found_keys(self, tasks: Sequence[str], effects: Sequence[str]) -> dict[str, list[str]]:
        names = self._names
        cache = names.cached("of", self._subject.owner)
        entries = members_of(self._broker, [cache])
        return {
            "calls": [names.tenant(task) for task in tasks],
            "pipelines": [names.pipeline(task) for task in tasks],
            "graphs": [key for task in tasks for key in _graph(names, task)],
            "loops": [names.loop(task) for task in tasks],
            "traces": [names.trace(task) for task in tasks],
            "events": [names.events(task) for task in tasks],
            "effects": list(effects),
            "cache entries": [*entries, *([cache] if entries else [])],
        }

    def _delivered(self, effects: Sequence[str]) -> Iterator[str]:
        """The ids of outputs that these effects handed over."""
        for result in fields_of(self._broker, effects, "result"):
            receipt = decode(result) if result else None
            if isinstance(receipt, dict) and isinstance(receipt.get("deliveryId"), str):
                yield str(receipt["deliveryId"])

    def _outputs(self, deliveries: set[str]) -> Iterator[bytes]:
        """Entries of the outputs' stream that stand for these deliveries."""
        start = "-"
        while deliveries:
            page = cast("Entries", self._broker.xrange(self._names.output, start, count=PAGE))
            yield from (entry for entry, fields in page if text(fields[b"deliveryId"]) in deliveries)
            if len(page) < PAGE:
                return
            start = f"({text(page[-1][0])}"

    def _dead(self) -> Iterator[DeadLetter]:
        return letters(self._broker, self._queues)

    def _is_theirs(self, letter: DeadLetter, tasks: set[str]) -> bool:
        if letter.task_id in tasks:
            return True
        return any(map(self._subject.covers, _scopes_of(letter)))


def _scopes_of(letter: DeadLetter) -> list[Scope]:
    """The scope of a call, or those of a batch run's."""
    if letter.message is None:
        return []
    envelope = open_envelope(letter.message.encode(), letter.queue)
    body = read_body(ReadingChannel().read(envelope))  # type: ignore[arg-type]  # its base class
    try:
        wire = {} if body is None else body[1]
        named = wire.get("scopes", [wire.get("scope")])
        return [Scope.parse(scope) for scope in named] if isinstance(named, list) else []
    except DittoError:
        return []


def _row(member: str) -> tuple[str, str]:
    key, scope, digest = member.rsplit(":", 2)
    return key, f"{scope}:{digest}"


def _named(members: Iterable[str], kind: str) -> list[str]:
    return [name.removeprefix(kind) for name in members if name.startswith(kind)]


def _graph(names: Keys, run: str) -> list[str]:
    return [names.graph(run), *(names.graph_part(run, part) for part in GRAPH_PARTS)]
