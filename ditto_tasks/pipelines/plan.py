"""The steps of an answering pipeline, and which of them are left. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines import steps
from ditto_tasks.pipelines.models import AnswerRequest, Search


@dataclass(frozen=True, slots=True)
class Step:
    """One node call of a pipeline; it takes its predecessor's result if its options name a binding."""

    name: str
    node: str
    wire: JsonObject
    options: JsonObject

    @property
    def bound(self) -> bool:
        return "bind" in self.options


Stage: TypeAlias = Sequence[Step]  # one step, or searches side by side and then the step that takes them all
Results: TypeAlias = Mapping[str, JsonValue]  # of finished steps, by name


def stages_of(request: AnswerRequest, pipeline: str) -> list[Stage]:
    """What runs one after another."""
    stages: list[list[Step]] = [
        [_load(request)] if request.init is not None else [],
        [*_searches(request), _update(request)],
        [_select(request)],
        [_sample(request)],
        [_turn(request, pipeline)] if request.store_turn else [],
        [_remember(request, pipeline)] if request.remember else [],
    ]
    return [[_with_deadline(step, request) for step in stage] for stage in stages if stage]


def steps_of(request: AnswerRequest, pipeline: str) -> list[Step]:
    """All steps, in the order in which they are sent."""
    return [step for stage in stages_of(request, pipeline) for step in stage]


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of a pipeline: its stages, and what the first of them gets from before."""

    stages: list[Stage]
    upstream: JsonValue = None


def remainder(stages: Sequence[Stage], results: Results) -> Remainder:
    """The stages from the first that has not finished; the last one at least.

    Searches that had all finished are not asked again: the step that takes them gets what they found.
    """
    last = len(stages) - 1
    first = next((at for at, stage in enumerate(stages) if stage[-1].name not in results), last)
    *searches, body = stages[first]
    found = [results.get(step.name) for step in searches]
    if searches and None not in found:
        return Remainder([[body], *stages[first + 1 :]], found)
    before = results[stages[first - 1][-1].name] if first else None
    return Remainder(list(stages[first:]), before)


def _with_deadline(step: Step, request: AnswerRequest) -> Step:
    if request.deadline_ms is None:
        return step
    return replace(step, options={**step.options, "deadlineMs": request.deadline_ms})


def _load(request: AnswerRequest) -> Step:
    wire: JsonObject = {"scope": to_wire(request.scope), "sources": list(request.init or ())}
    return Step(steps.LOAD, "CONTEXT.LOAD", wire, {"ifAbsent": True, "reply": "receipt"})


def _searches(request: AnswerRequest) -> list[Step]:
    return [_search(at, search, request.question) for at, search in enumerate(request.searches)]


def _search(position: int, search: Search, question: str) -> Step:
    query: JsonValue = question if search.node == "MEMORY.SEARCH" else {"content": question}
    return Step(steps.search_step(position), search.node, {"query": query, **search.input}, {})


def _update(request: AnswerRequest) -> Step:
    create = request.create or request.init is not None
    wire: JsonObject = {"scope": to_wire(request.scope), "onSearchFailure": request.on_search_failure}
    options: JsonObject = {"bind": "searches->context", "onMissing": "create" if create else "fail"}
    return Step(steps.UPDATE, "CONTEXT.UPDATE", wire, {**options, "reply": "receipt"})


def _select(request: AnswerRequest) -> Step:
    wire: JsonObject = {"scope": to_wire(request.scope), "purpose": "infer", "query": request.question}
    if request.select_limit is not None:
        wire["limit"] = request.select_limit
    if request.max_tokens is not None:
        wire["maxTokens"] = request.max_tokens
    binding = "update->select pinned" if request.pin else "update->select"
    return Step(steps.SELECT, "CONTEXT.SELECT", wire, {"bind": binding, "reply": "receipt"})


def _sample(request: AnswerRequest) -> Step:
    wire: JsonObject = {"question": request.question, "requireIds": list(request.require_ids)}
    if request.model is not None:
        wire["model"] = request.model
    if request.generation is not None:
        wire["generation"] = request.generation
    return Step(steps.SAMPLE, "INFER.REASONING.SAMPLE", wire, {"bind": "context->infer"})


def _turn(request: AnswerRequest, pipeline: str) -> Step:
    question: JsonObject = {**_turn_item(pipeline, "user"), "content": request.question}
    add: list[JsonValue] = [question, _turn_item(pipeline, "assistant")]
    # what is remembered is read from the context, so MEMORY.WRITE needs that instead of a receipt
    options: JsonObject = {"bind": "infer->context", "reply": "context" if request.remember else "receipt"}
    return Step(steps.TURN, "CONTEXT.UPDATE", {"scope": to_wire(request.scope), "add": add}, options)


def _turn_item(pipeline: str, role: str) -> JsonObject:
    return {"id": steps.turn_item_id(pipeline, role), "metadata": {"role": role}}


def _remember(request: AnswerRequest, pipeline: str) -> Step:
    ids: list[JsonValue] = [steps.turn_item_id(pipeline, role) for role in ("user", "assistant")]
    if request.store_turn:
        return Step(steps.REMEMBER, "MEMORY.WRITE", {"itemIds": ids}, {"bind": "context->memory"})
    drafts: list[JsonValue] = [{"metadata": {"contextItemId": identity}} for identity in ids]
    drafts[0] = {"content": request.question, "metadata": {"contextItemId": ids[0]}}
    return Step(steps.REMEMBER, "MEMORY.WRITE", {"memories": drafts}, {"bind": "infer->memory"})
