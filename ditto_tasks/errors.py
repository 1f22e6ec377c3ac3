"""Every error that this package raises on purpose.

    DittoError
    ├── ContextError            CONTEXT nodes, their state and their queue
    │   └── OutcomeUnknown      the one error that does not promise an untouched state
    ├── NodeInputError          INVALID_INPUT of the other domains; details name the path
    ├── MemoryError  InferError  InteractionError  RetrievalError
    ├── StateBackendError       a store's raw error, at the task boundary
    ├── ServiceError            an injected service's raw error, at the task boundary
    ├── SettingsError           configuration; details name the key
    ├── PublishError            refused before anything was sent
    ├── BrokerError             the broker is away, refuses the caller, or lost a reply; in sending.py
    ├── PipelineError
    ├── DeadLettered            a message that was given up on
    ├── EmbeddedServerError
    └── Cancelled               the default reason of a CancelToken

All have one constructor, and `args` equal to its arguments, so that pickle and Celery's JSON
result backend (which calls `cls(*args)`) rebuild them with code, message and details.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, Self, TypeAlias

Ending: TypeAlias = Literal["failed", "cancelled", "timeout"]


class DittoError(Exception):
    """A failure with a stable code; its message is public and holds no content of messages."""

    def __init__(self, code: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @classmethod
    def invalid_input(cls, path: str, reason: str) -> Self:
        """The INVALID_INPUT error that names `path` (a JSON pointer, empty for the whole input)."""
        return cls("INVALID_INPUT", f"{path or 'input'}: {reason}", {"path": path})


class ContextError(DittoError):
    """A CONTEXT node, its state or its queue refused the call; the codes are those of the reference."""


class OutcomeUnknown(ContextError):  # noqa: N818 - states what happened
    """The commit's reply was lost: repeat with the same operation id, which is safe."""

    def __init__(
        self,
        code: str = "STATE_OUTCOME_UNKNOWN",
        message: str = "the outcome is unknown; repeating with the same operation id is safe",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, message, details)


class NodeInputError(DittoError):
    """The input of a node is not what its model asks for."""


class MemoryError(DittoError):
    """A memory store or a MEMORY node failed in a way that its caller can act on."""


class InferError(DittoError):
    """An INFER node or its model provider failed."""


class InteractionError(DittoError):
    """An INTERACTION node refused its input or met broken infrastructure."""


class RetrievalError(DittoError):
    """A RETRIEVAL target, strategy or provider failed."""


class StateBackendError(DittoError):
    """The state store could not be asked; its own error stays out of the message."""


class ServiceError(DittoError):
    """An injected service raised; its own error stays out of the message."""


class SettingsError(DittoError):
    """The configuration is not usable; the message names the key."""


class PublishError(DittoError):
    """A task was refused before anything was sent."""


class PipelineError(DittoError):
    """A pipeline, graph or loop cannot go on."""


class DeadLettered(DittoError):  # noqa: N818 - states what happened
    """A message was moved to its queue's dead letters instead of being run."""


class EmbeddedServerError(DittoError):
    """The embedded server could not be found, started or stopped."""


class Cancelled(DittoError):  # noqa: N818 - states what happened
    """The caller asked for the work to stop."""

    def __init__(
        self,
        code: str = "CANCELLED",
        message: str = "the call was cancelled",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(code, message, details)


# how work has ended that raised an error with one of these codes; with any other it has failed
_ENDINGS: Final[Mapping[str, Ending]] = MappingProxyType(
    {
        "CANCELLED": "cancelled",
        "RETRIEVAL_CANCELLED": "cancelled",
        "TIMEOUT": "timeout",
        "DEADLINE_EXCEEDED": "timeout",
        "RETRIEVAL_TIMEOUT": "timeout",
    }
)


def ending_of(code: str) -> Ending:
    """The status of a result whose error has this code."""
    return _ENDINGS.get(code, "failed")


def raised(error: BaseException) -> str:
    """What a log may say of a raw error: its class and the place, since its text may hold anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" in {trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
