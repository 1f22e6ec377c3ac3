"""Inputs and outputs of the INFER nodes."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ditto_tasks.infer.values import (
    ActionDescriptor,
    ContextEntry,
    FinishReason,
    GenerationConfig,
    MemoryEntry,
    Message,
    Milliseconds,
    ModelConfig,
    StepCount,
    TokenCount,
    Usage,
)
from ditto_tasks.models import Finite, Json, JsonMap, NonEmptyText, Scope, Text, WireModel

DeliberationMode = Literal["select", "merge", "consensus", "debate"]


class SampleInput(WireModel):
    """Input of INFER.REASONING.SAMPLE; without ``model`` the worker's configured one is asked."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    model: ModelConfig | None = None
    generation: GenerationConfig | None = None
    actions: tuple[ActionDescriptor, ...] | None = None
    metadata: JsonMap | None = None

    @model_validator(mode="after")
    def _unique_action_names(self) -> "SampleInput":
        names = [action.name for action in self.actions or ()]
        if len(names) != len(set(names)):
            raise ValueError("action names must be unique")
        return self


class StrategyChoice(WireModel):
    """A trajectory strategy by name, with its own options."""

    name: NonEmptyText
    options: JsonMap | None = None


class Constraints(WireModel):
    """Budgets of a trajectory; ``max_steps`` counts samples, judging included."""

    max_steps: StepCount | None = None
    max_total_tokens: Annotated[TokenCount, Field(ge=1)] | None = None
    timeout_ms: Milliseconds | None = None


class TrajectoryInput(WireModel):
    """Input of INFER.REASONING.TRAJECTORY."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    objective: Text | None = None
    context: tuple[ContextEntry, ...] | None = None
    memory: tuple[MemoryEntry, ...] | None = None
    strategy: StrategyChoice
    model: ModelConfig | None = None
    generation: GenerationConfig | None = None
    constraints: Constraints | None = None


class TrajectoryStep(WireModel):
    """One step of a trajectory: a sample, a judgement or a note of the strategy."""

    index: Annotated[int, Field(ge=0)]
    kind: Literal["sample", "deliberate", "note"]
    label: Text | None = None
    message: Message | None = None
    finish_reason: FinishReason | None = None
    usage: Usage | None = None


class Trajectory(WireModel):
    """Outcome of a trajectory; a spent budget leaves it ``partial``, with the budget as stop reason."""

    result: Message | None = None
    steps: tuple[TrajectoryStep, ...]
    status: Literal["completed", "partial", "failed"]
    stop_reason: NonEmptyText
    usage: Usage | None = None


class ReflectTarget(WireModel):
    """What is reflected on: exactly one of a result, a trajectory or an artifact."""

    result: Json | None = None
    trajectory: Json | None = None
    artifact: Json | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "ReflectTarget":
        if len(self.model_fields_set) != 1:
            raise ValueError("exactly one of result, trajectory, artifact")
        return self


class ReflectInput(WireModel):
    """Input of INFER.REASONING.REFLECT."""

    target: ReflectTarget
    mode: Literal["critique", "verify", "revise"]
    criteria: tuple[NonEmptyText, ...] | NonEmptyText | None = None
    messages: tuple[Message, ...] | None = None
    context: tuple[ContextEntry, ...] | None = None
    memory: tuple[MemoryEntry, ...] | None = None
    model: ModelConfig | None = None
    generation: GenerationConfig | None = None


class Assessment(WireModel):
    """The judgement of a reflection."""

    passed: Annotated[bool, Field(strict=True)] | None = None
    summary: Text


class Issue(WireModel):
    """One fault that a reflection found."""

    severity: Literal["low", "medium", "high", "critical"]
    description: NonEmptyText
    suggested_fix: Text | None = None


class Reflection(WireModel):
    """Output of INFER.REASONING.REFLECT."""

    assessment: Assessment
    issues: tuple[Issue, ...] = ()
    revised_result: Message | None = None
    usage: Usage | None = None


class Candidate(WireModel):
    """One of the answers that a deliberation weighs."""

    id: NonEmptyText
    result: Message
    score: Finite | None = None
    metadata: JsonMap | None = None


class DeliberateInput(WireModel):
    """Input of INFER.REASONING.DELIBERATE."""

    candidates: Annotated[tuple[Candidate, ...], Field(min_length=1)]
    mode: DeliberationMode | None = None
    select_count: StepCount | None = None
    objective: Text | None = None
    messages: tuple[Message, ...] | None = None
    context: tuple[ContextEntry, ...] | None = None
    model: ModelConfig | None = None
    generation: GenerationConfig | None = None

    @model_validator(mode="after")
    def _unique_candidate_ids(self) -> "DeliberateInput":
        ids = [candidate.id for candidate in self.candidates]
        if len(ids) != len(set(ids)):
            raise ValueError("candidate ids must be unique")
        return self


class Deliberation(WireModel):
    """Output of INFER.REASONING.DELIBERATE; ``selected_ids`` only in mode select, best first."""

    mode: DeliberationMode
    result: Message
    selected_ids: tuple[NonEmptyText, ...] | None = None
    rationale: Text | None = None
    usage: Usage | None = None


class CacheKey(WireModel):
    """Names a cache entry; ``scope`` is a context scope or any name."""

    namespace: NonEmptyText | None = None
    scope: Scope | NonEmptyText
    key: NonEmptyText


class LookupInput(WireModel):
    """Input of INFER.CACHE.LOOKUP."""

    key: CacheKey


class Lookup(WireModel):
    """Output of INFER.CACHE.LOOKUP; ``value`` is present exactly on a hit."""

    hit: bool
    value: Json | None = None


class WriteInput(WireModel):
    """Input of INFER.CACHE.WRITE; without ``ttl_ms`` the entry stays, with 0 it is gone at once."""

    key: CacheKey
    value: Json
    ttl_ms: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    tags: tuple[NonEmptyText, ...] | None = None


class Written(WireModel):
    """Output of INFER.CACHE.WRITE."""

    written: bool


class InvalidateInput(WireModel):
    """Input of INFER.CACHE.INVALIDATE: exactly one selector."""

    key: CacheKey | None = None
    tag: NonEmptyText | None = None
    namespace: NonEmptyText | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> "InvalidateInput":
        if sum(value is not None for value in (self.key, self.tag, self.namespace)) != 1:
            raise ValueError("exactly one of key, tag, namespace")
        return self


class Invalidated(WireModel):
    """Output of INFER.CACHE.INVALIDATE: how many live entries went."""

    removed: Annotated[int, Field(ge=0)]
