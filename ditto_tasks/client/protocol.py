"""What both clients do without any I/O: calls as wire input, results as typed values or errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from uuid import uuid4

from celery import states

from ditto_tasks.errors import Cancelled, DittoError, ServiceError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.task import OPTIONS_KEY

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call of a node, ready to be published, and how its result is read."""

    node: str
    wire: JsonObject
    task_id: str
    read: Callable[[JsonValue], R]


class Event(NamedTuple):
    """Something that a running task said; `id` grows, so that a reader can go on after it."""

    id: str
    type: str
    data: JsonValue


def node_call(node: str, wire: Mapping[str, object], read: Callable[[JsonValue], R]) -> Call[R]:
    """A call with a task id of its own; keyword arguments may be snake_case, values may be models.

    `ditto` holds the task's options and goes as it is, but for the case of its keys.
    """
    options = wire.get(OPTIONS_KEY)
    given = {camel(key): to_wire(value) for key, value in wire.items() if key != OPTIONS_KEY}
    if isinstance(options, Mapping):
        given[OPTIONS_KEY] = {camel(str(key)): to_wire(value) for key, value in options.items()}
    return Call(node, given, str(uuid4()), read)


def camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Finished(NamedTuple):
    """The end of a task as the result backend holds it."""

    result: JsonValue
    error: BaseException | None


def finished(meta: Mapping[str, object]) -> Finished | None:
    """The end that a decoded record tells of, or None: tasks also store that they have started."""
    status, result = meta.get("status"), meta.get("result")
    if status == states.SUCCESS:
        return Finished(result, None)  # type: ignore[arg-type]  # the content type admits JSON only
    if status in states.PROPAGATE_STATES:
        return Finished(None, typed_error(result, str(status)))
    return None


def typed_error(error: object, status: str) -> DittoError:
    """A task's exception as an error of this package; what is not one of ours keeps its class's name only."""
    if isinstance(error, DittoError):
        return error
    if status == states.REVOKED:
        return Cancelled()
    return ServiceError("TASK_FAILED", f"the task failed with {type(error).__name__}")


def outcome(end: Finished, read: Callable[[JsonValue], R]) -> R:
    """What a caller gets: the typed result, or the error raised."""
    if end.error is not None:
        raise end.error
    return read(end.result)
