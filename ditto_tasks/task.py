"""The part of a task that knows no Celery: what a handler is given, and the options a call may carry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import DittoError, SettingsError
from ditto_tasks.extensions import import_problem
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.models import NonEmptyText, WireModel, from_wire
from ditto_tasks.nodes import NodeType

if TYPE_CHECKING:
    from ditto_tasks.dependencies import Dependencies

OPTIONS_KEY: Final = "ditto"  # the one keyword of a task that is not wire input
VERSION: Final = 1  # of the message, in the header `ditto_v`
NO_EPOCH: Final = 0  # of a call that came through no shard

_SHARED: Final = frozenset({"operationId", "deadlineMs", "bind"})
_OF_NODE: Final[Mapping[str, frozenset[str]]] = {
    "CONTEXT.LOAD": frozenset({"reply", "consistency", "ifAbsent"}),
    "CONTEXT.SELECT": frozenset({"reply", "consistency", "explain"}),
    "CONTEXT.UPDATE": frozenset({"reply", "onMissing"}),
    "CONTEXT.COMPRESS": frozenset({"reply", "explain"}),
}
_OF_DOMAIN: Final[Mapping[str, frozenset[str]]] = {
    "INFER": frozenset({"onUnknown", "retries", "timeoutMs", "tenant"}),
    "INTERACTION": frozenset({"onUnknown", "timeoutMs", "tenant"}),
}


class TaskOptions(WireModel):
    """The options of one call, under the reserved keyword `ditto`; None stands for the node's default."""

    operation_id: NonEmptyText | None = None
    reply: Literal["receipt", "context", "none"] | None = None
    consistency: Literal["any", "session"] = "any"
    explain: bool = Field(default=False, strict=True)  # answer with a selection receipt, too
    if_absent: bool = Field(default=False, strict=True)
    on_missing: Literal["fail", "create"] = "fail"
    on_unknown: Literal["fail", "repeat"] = "fail"
    retries: int = Field(default=0, ge=0, le=10, strict=True)  # of a model request that may pass
    timeout_ms: int | None = Field(default=None, ge=1, le=86_400_000, strict=True)
    deadline_ms: int | None = Field(default=None, ge=0, strict=True)  # epoch, by the server's clock
    bind: NonEmptyText | None = None
    tenant: NonEmptyText | None = None  # whose call it is; a scope says so itself


NO_OPTIONS: Final = TaskOptions()


def parse_options(row: NodeType, value: object) -> TaskOptions:
    """The options of a call of `row`; INVALID_INPUT for an unknown one, or one that this node has not."""
    if not isinstance(value, Mapping):
        raise row.input_error.invalid_input(f"/{OPTIONS_KEY}", "options are an object")
    known = _SHARED | _OF_NODE.get(row.name, frozenset()) | _OF_DOMAIN.get(row.domain, frozenset())
    for name in value:
        if name not in known:
            raise row.input_error.invalid_input(f"/{OPTIONS_KEY}", f"an option that {row.name} does not have")
    return from_wire(TaskOptions, value, error=row.input_error)


def uncounted(_name: str, _number: int = 1) -> None:
    """The counter of a call that nobody counts."""


def never_interrupted() -> DittoError | None:
    """The answer of a call that has neither a deadline nor a cancel key."""
    return None


def nobody_else(_seconds: float) -> bool:
    """The answer of a call whose process runs no others."""
    return False


@dataclass(frozen=True, slots=True)
class TaskClient:
    """Sends calls that belong to a task; services of CONTEXT get it as `execution.runtime`.

    A service may send a call but must not wait for it: the thread that would run it may be its own.
    """

    root_id: str
    deadline_ms: int | None  # since the epoch, by the server's clock
    publish: Callable[[str, JsonObject, str | None], str]

    def send(
        self,
        node: str,
        wire: Mapping[str, JsonValue],
        *,
        task_id: str | None = None,
        options: Mapping[str, JsonValue] | None = None,
    ) -> str:
        """Publish a call of any node, whose deadline is the task's or an earlier one; its task id."""
        asked = dict(options or {})
        if self.deadline_ms is not None:
            own = asked.get("deadlineMs", self.deadline_ms)
            asked["deadlineMs"] = min(own, self.deadline_ms) if isinstance(own, int) else own
        kwargs = {**wire, OPTIONS_KEY: asked} if asked else dict(wire)
        return self.publish(node, kwargs, task_id)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One delivery of one task, as its handler sees it.

    `interruption` asks whether the call was cancelled or is past its deadline. It costs a round trip;
    handlers that commit ask their operation log first, for a committed mutation is never reported so.
    """

    node: str
    wire: JsonObject
    options: TaskOptions
    task_id: str
    root_id: str
    epoch: int
    redelivered: bool
    dependencies: Dependencies
    owner: str = ""  # the scope that it works for, by its key, else its tenant; "" if neither is known
    refuse: str | None = None  # the code to refuse a mutation with, unless its outcome is known
    client: TaskClient | None = None
    upstream: JsonValue = None  # the predecessor's result, of a step with a binding
    token: CancelToken = field(default_factory=CancelToken)
    interruption: Callable[[], DittoError | None] = never_interrupted
    count: Callable[[str, int], None] = uncounted  # adds to a metric that the result cannot tell
    beside: Callable[[float], bool] = (
        nobody_else  # is its process at work for others, or was within so many s?
    )

    @property
    def operation_id(self) -> str:
        return self.options.operation_id or self.task_id

    def stop_if_interrupted(self) -> None:
        """Raise the reason if the call was cancelled or its deadline has passed."""
        reason = self.interruption()
        if reason is not None:
            self.token.cancel(reason)
            raise reason


Handler = Callable[[TaskCall], JsonValue]


def load_handler(row: NodeType) -> Handler:
    """The function that runs a node, from its module; SettingsError HANDLER_NOT_FOUND names both."""
    module = row.handler_module
    try:
        handlers: Mapping[str, Handler] = import_module(module).HANDLERS
        return handlers[row.name]
    except DittoError:
        raise
    except KeyError:
        reason = f"HANDLERS of {module} has no such node"
    except AttributeError:
        reason = f"{module} has no HANDLERS"
    except Exception as exc:  # noqa: BLE001 -- an application's code, whatever it raises
        reason = f"{module} can't be imported ({import_problem(exc)})"
    raise SettingsError("HANDLER_NOT_FOUND", f"{row.name}: {reason}", {"node": row.name, "module": module})


class Reply:
    """A result on its way to the store. Logs and events show its repr: the node and the size, no content."""

    __slots__ = ("_size", "node", "value")

    def __init__(self, node: str, value: JsonValue, size: int | None = None) -> None:
        self.node = node
        self.value = value
        self._size = size  # where it is known already

    def __repr__(self) -> str:
        size = len(encode(self.value)) if self._size is None else self._size
        return f"<{self.node} {size} bytes>"
