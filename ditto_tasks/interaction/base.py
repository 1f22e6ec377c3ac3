"""Ports of INTERACTION: tools, sinks, MCP servers, and the records of external effects."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ditto_tasks.cancellation import admit_all
from ditto_tasks.errors import DittoError
from ditto_tasks.interaction.models import Capability, OutputInput
from ditto_tasks.interaction.values import OutputReceipt, Status, ToolCall
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import CancelToken

ClaimState = Literal["claimed", "busy", "settled", "unknown", "conflict"]


class ToolError(Exception):
    """Raised by a tool: its failure, with a message that may be shown."""

    def __init__(
        self, code: str, message: str, *, status: Status = "failed", retryable: bool | None = None
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.retryable = retryable


@dataclass(frozen=True, kw_only=True)
class ActionCall:
    """What an action may know of its call. It returns by ``deadline_s`` or soon after a cancellation."""

    call_id: str
    token: CancelToken
    deadline_s: float  # on the clock of ``now``
    now: Callable[[], float]
    root: str = ""  # the canvas that it is part of, where there is one

    def remaining_s(self) -> float:
        """Seconds left; raises the token's reason, or ToolError when there are none."""
        self.token.raise_if_cancelled()
        left = self.deadline_s - self.now()
        if left <= 0:
            raise ToolError("TIMEOUT", "the action did not end in time", status="timeout")
        return left


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """A successful tool's output; at least one of the first three is given."""

    content: str | list[JsonValue] | None = None
    structured_content: JsonObject | None = None
    references: list[JsonValue] | None = None
    metadata: JsonObject | None = None
    # a failure that still has something to show
    error: ToolError | None = None


# returns text, an object (structured content) or a ToolOutput; raises ToolError for a failure of its own
ToolFunction = Callable[[JsonObject, ActionCall], object]


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool; ``needs`` are the permissions beside its name: read, write, execute, network:<name>.

    A ``read_only`` tool has no effect outside, so that a repeated delivery may run it again.
    """

    name: str
    description: str
    input_schema: JsonObject
    run: ToolFunction
    needs: frozenset[str] = field(default_factory=frozenset)
    read_only: bool = False
    timeout_ms: int | None = None
    cancelled_code: str = "CANCELLED"


class OutputSink(Protocol):
    """Takes messages to the outside."""

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        """Hand the message over once; an exception counts as an unknown outcome."""
        ...


class McpClient(Protocol):
    """Connects to one MCP server for each call; raises InteractionError when it can't be talked to."""

    def discover(self, server: str, call: ActionCall) -> list[Capability]:
        """Return what the server offers; calls none of it."""
        ...

    def invoke(self, server: str, tool: ToolCall, call: ActionCall) -> ToolOutput:
        """Call one tool once; raises ToolError for its failure."""
        ...


class OnceJson(Protocol):
    """Runs one external effect of a step at most once, however often the step is delivered."""

    def __call__(
        self, inputs: JsonValue, effect: Callable[[], JsonValue], admit: Callable[[], None]
    ) -> JsonValue:
        """Return the effect's recorded result, or run it once ``admit`` let it; raises EffectUnknownError."""
        ...


@dataclass(frozen=True, kw_only=True)
class InteractionCall:
    """The caller's limits on one node call. ``admit`` raises where nothing new is to be begun any more."""

    timeout_ms: int | None = None
    token: CancelToken = field(default_factory=CancelToken)
    once: OnceJson | None = None
    root: str = ""  # the canvas that the call is part of
    admit: Callable[[], None] = admit_all


class EffectUnknownError(DittoError):
    """An effect began and nobody knows how it ended; it is not repeated (code OUTCOME_UNKNOWN)."""


@dataclass(frozen=True, kw_only=True)
class EffectKey:
    """Names one external effect: whose it is, the step that causes it, and its position in the step.

    ``root`` is no part of the name: it is the canvas with which the record is erased.
    """

    owner: str
    step: str
    position: int
    root: str = ""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a claim met. ``result`` with settled, ``wait_ms`` (until the holder's lease lapses) with busy."""

    state: ClaimState
    result: bytes | None = None
    wait_ms: int = 0


class EffectStore(Protocol):
    """Records of effects. Each operation is atomic and may be repeated by the same holder.

    Raises StateBackendError when the server can't be asked. Results are opaque bytes.
    """

    def claim(self, key: EffectKey, *, digest: str, holder: str, repeat: bool) -> Claim:
        """Claim the effect for ``holder``, or say what became of it; a lapsed execution becomes unknown."""
        ...

    def execute(self, key: EffectKey, *, holder: str) -> bool:
        """Mark the claimed effect as possibly done from now on; False if the claim was lost."""
        ...

    def release(self, key: EffectKey, *, holder: str) -> bool:
        """Give up the claim, so that the next delivery need not wait; False if the effect was begun."""
        ...

    def renew(self, key: EffectKey, *, holder: str) -> bool:
        """Extend the lease of the running effect; False if it was lost."""
        ...

    def settle(self, key: EffectKey, *, holder: str, result: bytes) -> Literal["settled", "late", "lost"]:
        """Record the result, also one that comes after the effect was given up as unknown."""
        ...
