"""Messages that were given up on: `<queue>:dead`, newest first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from kombu.transport.virtual.base import Base64, Message

from ditto_tasks.errors import DeadLettered
from ditto_tasks.json_values import InvalidJson, decode
from ditto_tasks.lua_running import run_script
from ditto_tasks.serialization import CONTENT_TYPE
from ditto_tasks.sharding import shard_queue
from ditto_tasks.worker.consumer import request_of, tell_run
from ditto_tasks.worker.guard import open_envelope
from ditto_tasks.worker.keys import SCOPE_HEADER, dead_key

if TYPE_CHECKING:
    from celery import Celery
    from redis import Redis

CODE: Final = "DEAD_LETTERED"
PURGED: Final = "PURGED"
ACCEPT: Final = frozenset({CONTENT_TYPE})


class ReadingChannel:
    """As much of a kombu channel as a message needs to be read."""

    no_ack_consumers = None  # kombu's messages ask for it: every message is acknowledged

    def decode_body(self, body: str, encoding: str | None = None) -> str | bytes:
        return Base64().decode(body) if encoding == "base64" else body

    def read(self, envelope: dict[str, Any]) -> Message:  # kombu's edge
        """The message of an envelope that the guard has opened."""
        return Message(envelope, channel=cast("Any", self), accept=ACCEPT)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter. Only one with its message can be sent again; what can't be decoded is not kept."""

    queue: str
    code: str
    size: int
    task_id: str | None
    node: str | None
    scope_hash: str | None
    deaths: int
    message: str | None
    raw: bytes  # as it stands in the list, which is also its identity

    @property
    def id(self) -> str:
        """What `ditto dead retry|drop` calls it by: the task's id, where it has one."""
        return self.task_id or f"{self.queue}/{self.size}"


def letter_entry(message: Message, raw: bytes, deaths: int, code: str = CODE) -> bytes:
    """The entry of a message that workers died of, which keeps it as it was sent."""
    entry = {
        "code": code,
        "size": len(raw),
        "taskId": message.headers.get("id"),
        "node": message.headers.get("task"),
        "scope": message.headers.get(SCOPE_HEADER),
        "deaths": deaths,
        "message": raw.decode("utf-8", "replace"),
    }
    return json.dumps(entry).encode()


def read_letter(queue: str, raw: bytes) -> DeadLetter:
    """An entry of a list of dead letters; one that is no JSON is shown as such."""
    try:
        decoded = decode(raw)
    except InvalidJson:
        decoded = None
    entry = decoded if isinstance(decoded, Mapping) else {"code": "NOT_JSON", "size": len(raw)}
    return DeadLetter(
        queue=queue,
        code=_text(entry, "code") or "UNKNOWN",
        size=_number(entry, "size"),
        task_id=_text(entry, "taskId"),
        node=_text(entry, "node"),
        scope_hash=_text(entry, "scope"),
        deaths=_number(entry, "deaths"),
        message=_text(entry, "message"),
        raw=raw,
    )


def letters(client: Redis, queues: Iterator[str] | list[str]) -> Iterator[DeadLetter]:
    """All dead letters of these queues."""
    for queue in queues:
        for raw in client.lrange(dead_key(queue), 0, -1):
            yield read_letter(queue, raw if isinstance(raw, bytes) else raw.encode())


def retry(client: Redis, letter: DeadLetter) -> bool:
    """Send the message again, behind those that wait; False if it was not kept or is gone.

    The letter goes last, so that an interruption sends the message twice rather than never: a
    repeated operation has no second effect.
    """
    if letter.message is None or client.lpos(dead_key(letter.queue), cast("str", letter.raw)) is None:
        return False
    client.lpush(letter.queue, letter.message)
    return drop(client, letter)


def drop(client: Redis, letter: DeadLetter) -> bool:
    """Delete a dead letter; False if it is gone already."""
    return bool(client.lrem(dead_key(letter.queue), 1, letter.raw))  # type: ignore[arg-type]  # bytes are fine


def purge(app: Celery, client: Redis, shard: int) -> int:
    """Drop all messages that wait in a shard, and tell their callers; the one in work goes on.

    Each is a dead letter until its caller was told: a purge that is interrupted is ended by the next one.
    """
    queue = shard_queue(shard)
    begun = [letter for letter in letters(client, [queue]) if letter.code == PURGED]
    return sum(_drop_told(app, client, letter) for letter in chain(begun, _set_aside(client, queue)))


def _set_aside(client: Redis, queue: str) -> Iterator[DeadLetter]:
    """The messages that wait, each once it is among the dead letters."""
    while (raw := client.lindex(queue, -1)) is not None:
        head = raw if isinstance(raw, bytes) else raw.encode()
        entry = letter_entry(ReadingChannel().read(open_envelope(head, queue)), head, 0, PURGED)
        lists = [queue, dead_key(queue)]
        if run_script(client, "ditto_tasks.worker", "set_aside", lists, head, entry):  # else a worker took it
            yield read_letter(queue, entry)


def _drop_told(app: Celery, client: Redis, letter: DeadLetter) -> bool:
    message = ReadingChannel().read(open_envelope((letter.message or "").encode(), letter.queue))
    tell_caller(app, message, DeadLettered(PURGED, "the shard was purged before the call could run"))
    return drop(client, letter)


def tell_caller(app: Celery, message: Message, error: DeadLettered) -> None:
    """Store FAILURE under the message's task id, with its request: callers, chords and errbacks hear."""
    task_id = message.headers.get("id")
    if task_id is None:
        return
    app.backend.mark_as_failure(task_id, error, request=request_of(task_id, cast("Any", message)))
    tell_run(app, message.headers, error)


def _text(entry: Mapping[str, object], name: str) -> str | None:
    found = entry.get(name)
    return found if isinstance(found, str) else None


def _number(entry: Mapping[str, object], name: str) -> int:
    found = entry.get(name)
    return found if isinstance(found, int) else 0
