"""What a pipeline is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

from pydantic import Field

from ditto_tasks.models import Json, JsonMap, NonEmptyText, Scope, Text, WireModel

MAX_SEARCHES: Final = 64  # of one header
Milliseconds = Annotated[int, Field(ge=1)]
FlowName: TypeAlias = Literal["rag", "skill", "tool", "mcp", "react", "summarize"]


class Search(WireModel):
    """One search of the header; a `query` that its input leaves out is the pipeline's question."""

    node: Literal["MEMORY.SEARCH", "RETRIEVAL.SEARCH"] = "MEMORY.SEARCH"
    input: JsonMap = Field(default_factory=dict)


class AnswerRequest(WireModel):
    """All that `answer()` builds its canvas from; the pipeline's record keeps it for resuming."""

    scope: Scope
    question: NonEmptyText
    init: tuple[Json, ...] | None = None
    create: bool = False
    searches: Annotated[tuple[Search, ...], Field(min_length=1, max_length=MAX_SEARCHES)] = (Search(),)
    select_limit: int | None = None
    max_tokens: int | None = None
    model: JsonMap | None = None
    generation: JsonMap | None = None
    require_ids: tuple[NonEmptyText, ...] = ()
    store_turn: bool = True
    remember: bool = False
    pin: bool = False
    on_search_failure: Literal["fail", "skip"] = "fail"
    timeout_ms: Milliseconds | None = None  # from its start; None for runtime.pipelines.deadlineMs
    deadline_ms: Milliseconds | None = None  # since the epoch, by the server's clock; set at the start


class FlowRequest(WireModel):
    """What a flow is asked: its own input, which was checked at the start, and whose it is."""

    flow: FlowName
    input: JsonMap
    scope: Scope | None = None
    timeout_ms: Milliseconds | None = None  # from its start; None for runtime.pipelines.deadlineMs
    deadline_ms: Milliseconds | None = None  # since the epoch, by the server's clock; set at the start


RunRequest: TypeAlias = AnswerRequest | FlowRequest


class AnswerOptions(TypedDict, total=False):
    """The fields of AnswerRequest beside scope and question, as keyword arguments."""

    init: Sequence[object] | None
    create: bool
    searches: Sequence[Search | Mapping[str, object]]
    select_limit: int | None
    max_tokens: int | None
    model: Mapping[str, object] | None
    generation: Mapping[str, object] | None
    require_ids: Sequence[str]
    store_turn: bool
    remember: bool
    pin: bool
    on_search_failure: Literal["fail", "skip"]
    timeout_ms: int | None
    deadline_ms: int | None


class SearchHit(WireModel):
    """One thing that a search found, by the id it has in the context."""

    item_id: NonEmptyText
    score: float | None = None


class SearchReport(WireModel):
    """What one search of the header did; `code` is there when it failed and was skipped."""

    step: NonEmptyText
    node: NonEmptyText
    hits: tuple[SearchHit, ...] = ()
    code: Text | None = None


class Answer(WireModel):
    """A finished pipeline: the answer, and where it came from by ids, without the items' contents."""

    pipeline_id: NonEmptyText
    message: JsonMap
    finish_reason: NonEmptyText
    usage: JsonMap | None = None
    searches: tuple[SearchReport, ...]
    selected_item_ids: tuple[NonEmptyText, ...]
    updated_version: Text | None = None  # what UPDATE wrote
    selected_version: Text | None = None  # what SELECT read: the same, or a later one
    stored_version: Text | None = None  # what holds the turn, if it was stored
    memory_ids: tuple[NonEmptyText, ...] = ()
    step_ids: dict[str, str]

    @property
    def text(self) -> str:
        """The answer's content where it is text, else nothing."""
        content = self.message.get("content")
        return content if isinstance(content, str) else ""

    @property
    def skipped(self) -> tuple[SearchReport, ...]:
        """The searches that failed and were left out."""
        return tuple(search for search in self.searches if search.code is not None)
