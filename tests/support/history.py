"""What happened to scopes, by the server's append-only file, held against what was promised."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from support.workers import CONTEXT_DB

STATE_KEY = b"ditto:context:scope:"


@dataclass
class Chain:
    """All versions of one scope, oldest first, and the operation (= item) that each of them added."""

    versions: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    broken: int = 0  # writes that did anything but add one item to the version before
    items: list[str] = field(default_factory=list)

    def write(self, record: Mapping[str, Any]) -> None:
        """The next state of the scope."""
        items = [item["id"] for item in record["context"]["items"]]
        if items[:-1] != self.items:
            self.broken += 1
        self.versions.append(record["version"])
        self.operations.append(items[-1])
        self.items = items


@dataclass(frozen=True)
class Call:
    """One call of a sender, in the order in which it sent them."""

    id: str
    scope_key: str
    is_read: bool


@dataclass
class Verdict:
    """How often a promise was broken."""

    lost: int = 0  # acknowledged, but in no version
    doubled: int = 0  # in more than one version
    disordered: int = 0  # before an earlier call of the same sender, or a read older than what it had to see
    unheard: int = 0  # no result
    contradictions: int = 0  # the result says something else than the state, or changed later
    broken: int = 0  # versions that are no successor of the version before

    def is_clean(self) -> bool:
        return not any(vars(self).values())


def read_chains(directory: Path) -> dict[str, Chain]:
    """Every scope's chain, from the append-only files of a server that never rewrote them."""
    chains: dict[str, Chain] = {}
    for database, command in _commands(directory):
        if database == CONTEXT_DB and command[0].upper() == b"SET" and command[1].startswith(STATE_KEY):
            key = command[1].decode().removeprefix("ditto:context:")
            chains.setdefault(key, Chain()).write(json.loads(command[2]))
    return chains


def judge(
    senders: Iterable[list[Call]],
    results: Mapping[str, Mapping[str, Any]],
    later: Mapping[str, Mapping[str, Any]],
    chains: Mapping[str, Chain],
) -> Verdict:
    """Hold what callers were told against what the server recorded."""
    verdict = Verdict(broken=sum(chain.broken for chain in chains.values()))
    for chain in chains.values():
        verdict.doubled += sum(count - 1 for count in Counter(chain.operations).values())
        verdict.doubled += len(chain.versions) - len(set(chain.versions))
    for calls in senders:
        _judge_sender(verdict, calls, results, chains)
    verdict.contradictions += sum(_fact(told) != _fact(later.get(name, {})) for name, told in results.items())
    return verdict


def _judge_sender(
    verdict: Verdict,
    calls: list[Call],
    results: Mapping[str, Mapping[str, Any]],
    chains: Mapping[str, Chain],
) -> None:
    reached: dict[
        str, int
    ] = {}  # scope -> place in its chain that this sender's next call must be at or after
    for call in calls:
        result, chain = results.get(call.id), chains.get(call.scope_key, Chain())
        if result is None:
            verdict.unheard += 1
            continue
        place = _place(verdict, call, result, chain)
        if place is None:
            continue
        floor = reached.get(call.scope_key, -1)
        if place < floor or (place == floor and not call.is_read):
            verdict.disordered += 1
        reached[call.scope_key] = max(place, floor)


def _place(verdict: Verdict, call: Call, result: Mapping[str, Any], chain: Chain) -> int | None:
    """Where in the chain the call stands; None for one that was refused, or is nowhere."""
    succeeded = result["status"] == "SUCCESS"
    if call.is_read:
        if not succeeded:
            return None
        version = result["result"]["version"]
        if version not in chain.versions:
            verdict.contradictions += 1
            return None
        return chain.versions.index(version)
    if call.id not in chain.operations:
        verdict.lost += succeeded
        return None
    place = chain.operations.index(call.id)
    if not succeeded or result["result"]["version"] != chain.versions[place]:
        verdict.contradictions += 1
    return place


def _fact(result: Mapping[str, Any]) -> tuple[object, ...]:
    """What may not change when a result is stored once more by a redelivery."""
    value = result.get("result")
    if result.get("status") == "SUCCESS" and isinstance(value, Mapping):
        return ("SUCCESS", value.get("version") if "operationId" in value else None)
    return (result.get("status"),)


def _commands(directory: Path) -> Iterator[tuple[int, list[bytes]]]:
    database = 0
    for path in sorted(directory.glob("appendonlydir/*.incr.aof"), key=_sequence):
        with path.open("rb") as file:
            for command in _read(file):
                if command[0].upper() == b"SELECT":
                    database = int(command[1])
                yield database, command


def _sequence(path: Path) -> int:
    return int(path.name.split(".")[-3])


def _read(file: BinaryIO) -> Iterator[list[bytes]]:
    while (head := file.readline()).startswith(b"*"):
        command = []
        for _ in range(int(head[1:])):
            length = int(file.readline()[1:])
            command.append(file.read(length))
            file.read(2)
        yield command
