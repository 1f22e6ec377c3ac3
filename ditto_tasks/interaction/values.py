"""Values of INTERACTION: calls, what came of them, observations and receipts."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ditto_tasks.models import Json, JsonMap, NonEmptyText, Reference, Text, WireModel

Status = Literal["success", "failed", "cancelled", "timeout", "unknown"]
MAX_ERROR_TEXT = 512  # characters: a person reads it in a list
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _check_safe(text: str) -> str:
    if len(text) > MAX_ERROR_TEXT or _CONTROL.search(text):
        raise ValueError(f"must be at most {MAX_ERROR_TEXT} printable characters")
    return text


def safe_text(text: str) -> str:
    """Return text that an error may show: one line, printable, not long."""
    return _CONTROL.sub(" ", text)[:MAX_ERROR_TEXT]


SafeText = Annotated[str, AfterValidator(_check_safe)]
ErrorCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class ToolCall(WireModel):
    """A call of a tool; the name is checked where it is looked up."""

    id: NonEmptyText
    name: NonEmptyText
    arguments: JsonMap


class ExternalError(WireModel):
    """Why something outside did not succeed."""

    code: ErrorCode
    message: SafeText
    retryable: Annotated[bool, Field(strict=True)] | None = None


class ExternalResult(WireModel):
    """What came of an action; a success has something to show, anything else has an error."""

    call_id: NonEmptyText
    source: NonEmptyText
    status: Status
    content: Text | tuple[Json, ...] | None = None
    structured_content: JsonMap | None = None
    references: tuple[Reference, ...] | None = None
    error: ExternalError | None = None
    metadata: JsonMap | None = None

    @model_validator(mode="after")
    def _status_fits(self) -> Self:
        if self.status != "success":
            if self.error is None:
                raise ValueError("a result that is no success needs an error")
            return self
        if self.error is not None:
            raise ValueError("a success has no error")
        if self.content is None and self.structured_content is None and self.references is None:
            raise ValueError("a success needs content, structuredContent or references")
        return self


class InteractionMessage(WireModel):
    """A message to or from the outside."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Json
    name: NonEmptyText | None = None


class Observation(WireModel):
    """An external result as something that a model can read."""

    call_id: NonEmptyText
    source: NonEmptyText
    status: Status
    message: InteractionMessage
    structured_content: JsonMap | None = None
    references: tuple[Reference, ...] | None = None
    error: ExternalError | None = None
    metadata: JsonMap | None = None


class OutputReceipt(WireModel):
    """What a sink says of a delivery; accepted is not yet delivered."""

    delivery_id: NonEmptyText
    status: Literal["accepted", "rejected", "unknown"]
    error: ExternalError | None = None
    reference: Reference | None = None
    metadata: JsonMap | None = None

    @model_validator(mode="after")
    def _status_fits(self) -> Self:
        if (self.status == "accepted") == (self.error is not None):
            raise ValueError("exactly the receipts that are not accepted have an error")
        return self
