"""Inputs of the flows on the queues, and what they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.infer.values import ModelConfig, Usage
from ditto_tasks.interaction.models import DiscoverInput, Discovery, Invocation, InvokeInput
from ditto_tasks.interaction.values import ExternalResult, Observation, ToolCall
from ditto_tasks.models import Json, JsonMap, NonEmptyText, WireModel
from ditto_tasks.pipelines.models import FlowName
from ditto_tasks.pipelines.react import ReactRequest

Positive = Annotated[int, Field(ge=1, strict=True)]
OnFailed: TypeAlias = Literal["raise", "add"]


class RagInput(WireModel):
    """SELECT for inference by the RAG strategy."""

    context: JsonMap | None = None
    query: Json | None = None
    corpus: JsonMap | None = None
    limit: Positive | None = None
    max_tokens: Positive | None = None
    options: JsonMap | None = None


class SkillInput(WireModel):
    """LOAD, then UPDATE where there is a scope or a context."""

    sources: tuple[Json, ...]
    context: JsonMap | None = None


class ToolInput(WireModel):
    """ACT.TOOL, OBSERVE, UPDATE."""

    call: ToolCall
    context: JsonMap | None = None
    on_failed_observation: OnFailed = "raise"


class McpInput(WireModel):
    """ACT.MCP, and for an invocation OBSERVE and UPDATE."""

    request: Annotated[DiscoverInput | InvokeInput, Field(discriminator="operation")]
    context: JsonMap | None = None
    on_failed_observation: OnFailed = "raise"


class SummarizeInput(WireModel):
    """SELECT, SAMPLE, validation, one UPDATE, COMPRESS; without `ids` all that may be replaced is."""

    max_tokens: Positive
    model: ModelConfig
    ids: tuple[NonEmptyText, ...] | None = None


class Summarized(WireModel):
    """What a summary replaced, and the version of the state after that."""

    summary_id: NonEmptyText
    removed_ids: tuple[NonEmptyText, ...]
    version: NonEmptyText
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class RagFlowResult:
    """What was selected, also as the context to go on with."""

    output: ContextSelection
    context: Context


@dataclass(frozen=True, slots=True)
class SkillFlowResult:
    """What was loaded, and the context that it was added to (the loaded one without another)."""

    output: Context
    context: Context


@dataclass(frozen=True, slots=True)
class ToolFlowResult:
    """What the tool did, how it was observed, and the context that holds it."""

    output: ExternalResult
    observation: Observation
    context: Context


@dataclass(frozen=True, slots=True)
class McpFlowResult:
    """What the server answered; a discovery leaves the context alone and observes nothing."""

    output: Discovery | Invocation
    observation: Observation | None
    context: Context


INPUTS: Final[Mapping[FlowName, type[WireModel]]] = MappingProxyType(
    {
        "rag": RagInput,
        "skill": SkillInput,
        "tool": ToolInput,
        "mcp": McpInput,
        "react": ReactRequest,
        "summarize": SummarizeInput,
    }
)
