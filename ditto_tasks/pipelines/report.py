"""A finished pipeline's answer, put together from what its steps returned. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.pipelines import steps
from ditto_tasks.pipelines.bindings import selection_of
from ditto_tasks.pipelines.mappings import candidate_id
from ditto_tasks.pipelines.models import Answer, AnswerRequest, SearchHit, SearchReport
from ditto_tasks.pipelines.outcomes import failure_of, output_of
from ditto_tasks.pipelines.plan import Results, steps_of


def answer_of(request: AnswerRequest, pipeline: str, results: Results) -> Answer:
    """The answer, or the typed error of a last step whose NodeResult is not a success."""
    sampled = cast(JsonObject, output_of(results[steps.SAMPLE]))
    remembered = results.get(steps.REMEMBER)
    memories = cast("Sequence[JsonObject]", output_of(remembered)) if remembered is not None else ()
    return Answer(
        pipeline_id=pipeline,
        message=cast(JsonObject, sampled["message"]),
        finish_reason=cast(str, sampled["finishReason"]),
        usage=cast("JsonObject | None", sampled.get("usage")),
        searches=_search_reports(request, results),
        selected_item_ids=_selected_ids(results[steps.SELECT]),
        updated_version=_version(results.get(steps.UPDATE)),
        selected_version=_version(results.get(steps.SELECT)),
        stored_version=_version(results.get(steps.TURN)),
        memory_ids=tuple(cast(str, memory["id"]) for memory in memories),
        step_ids={step.name: steps.step_id(pipeline, step.name) for step in steps_of(request, pipeline)},
    )


def _selected_ids(selected: JsonValue) -> tuple[str, ...]:
    return tuple(cast("Sequence[str]", selection_of(selected)["selectedItemIds"]))


def _version(receipt: JsonValue) -> str | None:
    version = receipt.get("version") if isinstance(receipt, dict) else None
    return version if isinstance(version, str) else None


def _search_reports(request: AnswerRequest, results: Results) -> tuple[SearchReport, ...]:
    names = [steps.search_step(position) for position in range(len(request.searches))]
    searches = zip(names, request.searches, strict=True)
    return tuple(search_report(name, search.node, results[name]) for name, search in searches)


def search_report(step: str, node: str, result: JsonValue) -> SearchReport:
    """What one search found, by the ids that its hits have in the context."""
    failure = failure_of(result)
    if failure is not None:
        return SearchReport(step=step, node=node, code=failure.code)
    output = output_of(result)
    hits = cast("Sequence[JsonObject]", output if isinstance(output, list) else _candidates(output))
    return SearchReport(step=step, node=node, hits=tuple(map(_hit, hits)))


def _candidates(output: JsonValue) -> JsonValue:
    return cast(JsonObject, output)["candidates"]


def _hit(found: JsonObject) -> SearchHit:
    memory = cast("JsonObject | None", found.get("memory"))
    identity = f"memory:{memory['id']}" if memory is not None else candidate_id(found)
    return SearchHit(item_id=identity, score=cast("float | None", found.get("score")))
