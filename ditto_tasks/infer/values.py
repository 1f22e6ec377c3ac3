"""Values that every INFER node shares: messages, models, generation, actions, usage, samples."""

from typing import Annotated, Literal

from pydantic import Field

from ditto_tasks.models import Finite, Json, JsonMap, NonEmptyText, Text, WireModel

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "action_request", "cancelled", "error"]
TokenCount = Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)]
StepCount = Annotated[int, Field(strict=True, ge=1, le=1000)]
Milliseconds = Annotated[int, Field(strict=True, ge=1, le=24 * 3_600_000)]


class Message(WireModel):
    """One message of a conversation with a model; ``content`` is text or a list of parts."""

    role: Role
    content: Text | tuple[Json, ...]
    metadata: JsonMap | None = None


class ModelConfig(WireModel):
    """Which model is asked, and through which registered provider."""

    provider: NonEmptyText | None = None
    model: NonEmptyText
    endpoint: NonEmptyText | None = None
    provider_options: JsonMap | None = None


class GenerationConfig(WireModel):
    """How the model generates; an absent field is the provider's own default."""

    temperature: Annotated[Finite, Field(ge=0, le=2)] | None = None
    top_p: Annotated[Finite, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None
    max_tokens: Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)] | None = None
    stop: tuple[NonEmptyText, ...] | None = None
    seed: Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)] | None = None


class Usage(WireModel):
    """Tokens as the provider reported them; a count that was not reported is absent."""

    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    total_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None
    cached_input_tokens: TokenCount | None = None


class ActionDescriptor(WireModel):
    """An action that the model may ask for."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Text | None = None
    input_schema: JsonMap
    target_node: NonEmptyText | None = None


class ActionRequest(WireModel):
    """An action that the model asked for; ``target_node`` comes from its descriptor."""

    id: NonEmptyText
    name: NonEmptyText
    arguments: JsonMap
    target_node: NonEmptyText | None = None


class Sample(WireModel):
    """One candidate answer of a model."""

    message: Message
    action_requests: tuple[ActionRequest, ...] | None = None
    finish_reason: FinishReason
    usage: Usage | None = None


class ContextEntry(WireModel):
    """A piece of context given to a reasoning node."""

    id: NonEmptyText | None = None
    content: Json
    source: Text | None = None
    score: Finite | None = None


class MemoryEntry(WireModel):
    """A memory given to a reasoning node."""

    id: NonEmptyText
    content: Json
    score: Finite | None = None
    timestamp: Text | None = None
