"""Conversations that survive their cache: each delivered turn is archived, and recovery is exact.

A turn, in order:

1. `recover` journals the input, reads the archive that was acknowledged last with MEMORY.GET, and the
   working set of that revision with CONTEXT.LOAD. Only CONTEXT_NOT_FOUND permits a rebuild from the archive:
   any other failure of a store surfaces, since it says nothing about what is stored. Then CONTEXT.UPDATE
   adds the input.
2. The application selects, samples and delivers.
3. `archive` writes the new revision with MEMORY.WRITE, then acknowledges it, then stores its working set.

A process that dies between the write and the acknowledgement leaves an archive that nobody has confirmed:
recovery goes on from the revision before, and archiving the same turns again is the same record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from ditto_tasks.context.models import Context
from ditto_tasks.context.nodes.in_process import ContextNodes
from ditto_tasks.errors import ContextError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, text_or_json
from ditto_tasks.memory.nodes import MemoryNodes
from ditto_tasks.models import Json, NodeResult, NonEmptyText, Reference, Scope, WireModel, from_wire

ROLE: Final = "role"  # the metadata key under which an item keeps who said it


class Turn(WireModel):
    """One message of a conversation, with the id that its context item has."""

    id: NonEmptyText
    role: NonEmptyText
    content: Json


class ConversationArchive(WireModel):
    """All that a revision is rebuilt from."""

    turns: tuple[Turn, ...]
    interpretation: Json = None
    artifact: Reference | None = None


class ConversationLedger(Protocol):
    """Durable notes about a conversation; never its context. Each call is atomic and safe to repeat."""

    def journal(self, namespace: str, revision: str, turn: JsonObject) -> None:
        """Note the input that leads to `revision` before anything is done with it."""
        ...

    def acknowledge(self, namespace: str, revision: str) -> None:
        """Note that the archive of `revision` is written; from now on it is the latest."""
        ...

    def acknowledged(self, namespace: str) -> str | None:
        """The revision that was acknowledged last; None before the first."""
        ...


@dataclass(frozen=True, slots=True)
class Recovered:
    """Where a conversation stands: the working set with the current input, and what it was taken from."""

    context: Context
    revision: str | None
    archive: ConversationArchive | None
    rebuilt: bool


class Conversation:
    """One conversation, known by a UUID."""

    def __init__(
        self, namespace: UUID, *, contexts: ContextNodes, memories: MemoryNodes, ledger: ConversationLedger
    ) -> None:
        self._namespace = str(namespace)
        self._contexts = contexts
        self._memories = memories
        self._ledger = ledger

    def scope(self, revision: str) -> Scope:
        """Where the working set of a revision is kept."""
        return Scope(session_id=self._namespace, turn_id=revision)

    def key(self, revision: str) -> str:
        """Under which key the archive of a revision is kept."""
        return f"{self._namespace}/{revision}"

    def recover(self, current: Turn | JsonObject, *, next_revision: str) -> Recovered:
        """The working set that the next turn begins with, `current` being its input."""
        turn = from_wire(Turn, current, error=PipelineError)
        self._ledger.journal(self._namespace, next_revision, turn.wire_form())
        revision = self._ledger.acknowledged(self._namespace)
        archive = None if revision is None else self._read(revision)
        rebuilt = self._ensure_working_set(revision or next_revision, archive)
        scope = self.scope(revision or next_revision)
        context = self._contexts.update(scope=scope, add=[item_of(turn)])
        return Recovered(context, revision, archive, rebuilt)

    def archive(self, revision: str, archive: ConversationArchive | JsonObject) -> None:
        """Keep a delivered turn: written, acknowledged, then cached as the working set of its revision."""
        kept = from_wire(ConversationArchive, archive, error=PipelineError)
        draft: JsonObject = {"key": self.key(revision), "content": kept.wire_form()}
        _output(self._memories.write({"memories": [draft]}))
        self._ledger.acknowledge(self._namespace, revision)
        self._store_working_set(revision, kept.turns)

    def _read(self, revision: str) -> ConversationArchive:
        found = _output(self._memories.get({"keys": [self.key(revision)]}))
        if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
            raise PipelineError("ARCHIVE_MISSING", "the acknowledged archive is not in memory")
        return from_wire(ConversationArchive, found[0]["content"], error=PipelineError)

    def _ensure_working_set(self, revision: str, archive: ConversationArchive | None) -> bool:
        """Whether it had to be rebuilt."""
        try:
            self._contexts.load(scope=self.scope(revision))
        except ContextError as problem:
            if problem.code != "CONTEXT_NOT_FOUND":
                raise
            self._store_working_set(revision, () if archive is None else archive.turns)
            return archive is not None
        return False

    def _store_working_set(self, revision: str, turns: Sequence[Turn]) -> None:
        self._contexts.load(scope=self.scope(revision), sources=[item_of(turn) for turn in turns])


def item_of(turn: Turn) -> JsonObject:
    """A turn as a context item that keeps its role."""
    return {"id": turn.id, "content": turn.content, "metadata": {ROLE: turn.role}}


def messages_of(context: Context) -> list[JsonObject]:
    """A conversation's items as messages for INFER, in their own roles; other items are the user's."""
    return [_message(item.id, item.content, item.metadata or {}) for item in context.items]


def _message(item_id: str, content: JsonValue, metadata: Mapping[str, JsonValue]) -> JsonObject:
    role = metadata.get(ROLE, "user")
    return {"role": role, "content": text_or_json(content), "metadata": {"contextItemId": item_id}}


def _output(result: NodeResult) -> JsonValue:
    """The output of a success; any other result is an error, never an empty answer."""
    if result.error is not None:
        raise PipelineError(result.error.code, result.error.message)
    return result.output
