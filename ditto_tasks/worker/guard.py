"""Decoding behind a guard: garbage in a queue costs its sender an answer, and nobody anything else.

Stock decoding dies of a message without headers, logs the body of one it can't read, and gives tagged
objects a meaning. Here a channel opens the raw envelope strictly. What it refuses goes on as an empty
message that says why, takes the normal way of delivery and acknowledgement, and ends in `<queue>:dead`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from queue import Empty
from typing import Any, Final, TypeGuard

from kombu.transport import redis as kombu_redis
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps
from kombu.utils.uuid import uuid

from ditto_tasks.admission import gate_of_publish
from ditto_tasks.json_values import MESSAGE_DEPTH, InvalidJson, decode
from ditto_tasks.serialization import CONTENT_TYPE
from ditto_tasks.task import VERSION
from ditto_tasks.worker.keys import CHANNEL_HEADERS

REFUSED: Final = "ditto_refused"  # header of the empty message: the reason code
SIZE: Final = "ditto_size"  # header: bytes of the message as it was found
MAX_ENVELOPE_BYTES: Final = 6 * 1024 * 1024  # a 4 MiB body in base64, and its headers
ENVELOPE_DEPTH: Final = 20  # headers are flat; a canvas is inside of the body
ID_LENGTH: Final = 255
TASK_QUEUES: Final = "ditto."
BATCH: Final = "_publish_batch"  # kombu's option: what is to be sent together, later
TAG: Final = "__type__"  # kombu reads envelopes back with its own JSON when it restores them

_TEXTS: Final = (
    "root_id",
    "parent_id",
    "group",
    "shadow",
    "eta",
    "expires",
    "argsrepr",
    "kwargsrepr",
    "origin",
)


class RefusedError(Exception):
    """An envelope that can't be delivered; the code says why."""


def open_envelope(raw: bytes, queue: str) -> dict[str, Any]:  # kombu's edge
    """The message that `raw` holds, made safe for kombu and Celery, or the empty one that says why not."""
    envelope: object = None
    try:
        envelope = _decode(raw)
        return _checked(envelope, queue)
    except RefusedError as refused:
        return refusal(str(refused), queue, size=len(raw), task_id=_readable_id(envelope))


def refusal(code: str, queue: str, *, size: int, task_id: str | None) -> dict[str, Any]:  # kombu's edge
    """An empty message that takes the place of one that was refused."""
    return {
        "body": "",
        "content-type": CONTENT_TYPE,
        "content-encoding": "utf-8",
        "headers": {REFUSED: code, SIZE: size, "id": task_id},
        "properties": _properties({}, queue),
    }


def _decode(raw: bytes) -> object:
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise RefusedError("TOO_LARGE")
    try:
        return decode(raw, max_depth=ENVELOPE_DEPTH)
    except InvalidJson:
        raise RefusedError("NOT_JSON") from None


def _checked(envelope: object, queue: str) -> dict[str, Any]:
    if not isinstance(envelope, dict) or not isinstance(envelope.get("properties"), dict):
        raise RefusedError("NOT_A_MESSAGE")
    headers = envelope.get("headers")
    if not isinstance(headers, dict) or not headers:
        raise RefusedError("NO_HEADERS")
    _check_headers(headers)
    if envelope.get("content-type") != CONTENT_TYPE:
        raise RefusedError("WRONG_CONTENT_TYPE")
    _check_body(envelope.get("body"), envelope["properties"])
    return {
        "body": envelope["body"],
        "content-type": CONTENT_TYPE,
        "content-encoding": "utf-8",
        "headers": {"argsrepr": "()", "kwargsrepr": "<hidden>", **_senders(headers)},
        "properties": _properties(envelope["properties"], queue),
    }


def _check_headers(headers: Mapping[str, Any]) -> None:
    if not _is_id(headers.get("id")):
        raise RefusedError("NO_TASK_ID")
    if not isinstance(headers.get("task"), str):
        raise RefusedError("NO_TASK")
    version = headers.get("ditto_v")
    if type(version) is not int or version != VERSION:
        raise RefusedError("UNKNOWN_VERSION")
    well_formed = (
        all(isinstance(headers.get(name), (str, type(None))) for name in _TEXTS)
        and _is_count(headers.get("retries", 0))
        and _is_timelimit(headers.get("timelimit"))
        and isinstance(headers.get("stamped_headers"), (list, type(None)))
        and isinstance(headers.get("stamps"), (dict, type(None)))
        and "compression" not in headers
        and not _has_tag(headers)
    )
    if not well_formed:
        raise RefusedError("BAD_HEADERS")


def _senders(headers: Mapping[str, Any]) -> dict[str, Any]:
    """The headers that a sender may write."""
    return {name: value for name, value in headers.items() if name not in CHANNEL_HEADERS}


def _check_body(body: object, properties: Mapping[str, object]) -> None:
    """The body stays as it is: kombu reads it with what it takes to restore the message."""
    if not isinstance(body, str) or properties.get("body_encoding") != "base64":
        raise RefusedError("BAD_BODY")
    try:
        b64decode(body, validate=True)
    except ValueError:
        raise RefusedError("BAD_BODY") from None


def _properties(given: Mapping[str, Any], queue: str) -> dict[str, Any]:  # kombu's edge
    """Only what Celery uses; tag and routing are ours, so that a message can't be restored elsewhere."""
    info = given.get("delivery_info")
    redelivered = isinstance(info, dict) and info.get("redelivered") is True
    texts = {name: given.get(name) for name in ("correlation_id", "reply_to")}
    return {
        **{name: value for name, value in texts.items() if isinstance(value, str)},
        "priority": given["priority"] if _is_count(given.get("priority")) else 0,
        "delivery_mode": 2,
        "body_encoding": "base64",
        "delivery_tag": uuid(),
        "delivery_info": {"exchange": "", "routing_key": queue, "redelivered": redelivered},
    }


def _readable_id(envelope: object) -> str | None:
    headers = envelope.get("headers") if isinstance(envelope, dict) else None
    found = headers.get("id") if isinstance(headers, dict) else None
    return found if _is_id(found) else None


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= ID_LENGTH and value.isprintable()


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _is_timelimit(value: object) -> bool:
    if value is None:
        return True
    seconds = (int, float, type(None))
    return isinstance(value, list) and len(value) == 2 and all(isinstance(limit, seconds) for limit in value)


def _has_tag(value: object) -> bool:
    if isinstance(value, dict):
        return TAG in value or any(_has_tag(item) for item in value.values())
    return isinstance(value, list) and any(_has_tag(item) for item in value)


class GuardedChannel:
    """Mixin for channels of kombu's Redis transport: every message of a task queue comes through the guard.

    A channel with its own way of taking calls `deliver_raw` with what it took. Messages of other queues
    (replies of remote control) are no tasks; they are decoded strictly too, and dropped if they can't be.
    """

    def deliver_raw(self: Any, raw: bytes, queue: str) -> None:  # kombu's edge
        """Open one raw message of `queue` and hand it to the queue's consumer."""
        self.connection._deliver(open_raw(raw, queue), queue)


def open_raw(raw: bytes | str, queue: str) -> dict[str, Any]:  # kombu's edge
    """The message of a raw entry of a list, guarded if it is a queue of tasks."""
    data = raw.encode() if isinstance(raw, str) else bytes(raw)
    return open_envelope(data, queue) if queue.startswith(TASK_QUEUES) else open_reply(data)


def open_reply(raw: bytes) -> dict[str, Any]:  # kombu's edge
    """A message of remote control or an event; raises Empty, as for no message at all, if it is none."""
    try:
        message = decode(raw, max_depth=MESSAGE_DEPTH)
        return _checked_reply(message)
    except (InvalidJson, RefusedError):
        raise Empty from None


def _checked_reply(message: object) -> dict[str, Any]:  # kombu's edge
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
        raise RefusedError("NOT_A_MESSAGE")
    properties, headers = message["properties"], message.get("headers")
    if not isinstance(headers, dict) or "compression" in headers or _has_tag(message):
        raise RefusedError("BAD_HEADERS")
    if not isinstance(properties.get("delivery_tag"), str):
        raise RefusedError("NOT_A_MESSAGE")
    if not isinstance(properties.get("delivery_info", {}), dict):
        raise RefusedError("NOT_A_MESSAGE")
    _check_body(message.get("body"), properties)
    return message


class GuardedRedisChannel(GuardedChannel, kombu_redis.Channel):
    """The channel of ordinary queues and of broadcasts: kombu's methods with its decoding replaced."""

    _lent: Any = None

    def _create_client(self: Any, asynchronous: bool = False) -> Any:
        """kombu makes a client for each command, which costs as much as the command: one a pool will do."""
        if self.connection is None:  # for a late acknowledgement; kombu logs what it knows as such an error
            raise ConnectionError("the channel is closed")
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[misc]  # self is Any
        if self._lent is None or self._lent.connection_pool is not self.pool:
            self._lent = super()._create_client()  # type: ignore[misc]  # self is Any
        return self._lent

    def _brpop_read(self: Any, **options: Any) -> bool:  # kombu's edge
        try:
            taken = self._read_reply(options)
            if not taken:
                raise Empty
            key, raw = taken
            queue = bytes_to_str(key).rsplit(self.sep, 1)[0]
            self._queue_cycle.rotate(queue)
            self.deliver_raw(raw, queue)
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _read_reply(self: Any, options: dict[str, Any]) -> Any:  # kombu's edge
        try:
            return self.client.parse_response(self.client.connection, "BRPOP", **options)
        except self.connection_errors:
            self.client.connection.disconnect()  # the next poll connects again
            raise

    def _handle_message(self: Any, client: Any, response: Any) -> dict[str, Any]:  # kombu's edge
        """Broadcasts come by publish and subscribe: one that is no message is taken for an empty one."""
        payload: dict[str, Any] = super()._handle_message(client, response)  # type: ignore[misc]  # self is Any
        if bytes_to_str(payload["type"]).endswith("message") and payload["data"]:
            try:
                open_reply(payload["data"])
            except Empty:
                payload["data"] = None
        return payload

    def _put(self: Any, queue: str, message: Any, **options: Any) -> None:  # kombu's edge
        """A task's message goes out in the round trip in which it's let in.

        Not by `self.client`: once anybody has consumed here, as `inspect` does, its next reply is a BRPOP's.
        """
        gate = gate_of_publish()
        if gate is None or not gate.admission.is_needed:
            super()._put(queue, message, **options)
        elif options.get(BATCH) is not None:
            with self.conn_or_acquire() as client:
                gate.check(client)
            super()._put(queue, message, **options)
        else:
            priority = self._get_message_priority(message, reverse=False)
            with self.conn_or_acquire() as client:
                gate.push(client, self._q_for_pri(queue, priority), dumps(message))

    def _get(self: Any, queue: str, timeout: float | None = None) -> dict[str, Any]:  # noqa: ARG002 -- kombu's form
        with self.conn_or_acquire() as client:
            for priority in self.priority_steps:
                raw = client.rpop(self._q_for_pri(queue, priority))
                if raw:
                    self._maybe_update_queues_expire(client, queue)
                    return open_raw(raw, queue)
            self._maybe_update_queues_expire(client, queue)
        raise Empty


class GuardedTransport(kombu_redis.Transport):
    """kombu's Redis transport with guarded channels."""

    Channel = GuardedRedisChannel


class GuardedSentinelChannel(GuardedRedisChannel, kombu_redis.SentinelChannel):
    """The same behind Sentinel."""


class GuardedSentinelTransport(kombu_redis.SentinelTransport):
    """kombu's Sentinel transport with guarded channels."""

    Channel = GuardedSentinelChannel
