"""The summarize flow's steps: what may be replaced, which answers are accepted, what the UPDATE does."""

import json

import pytest
from support.models import text_sample

from ditto_tasks.context import ContextItem, parse_context
from ditto_tasks.errors import InferError, PipelineError
from ditto_tasks.pipelines.summarizing import accept_summary, sample_input, summarizable, update_input

MARKS = [
    {"protected": True},
    {"safety": True},
    {"currentGoal": True},
    {"pending": True},
    {"role": "system"},
    {"callId": "c"},
]


def items(*ids: str, **metadata: object) -> list[ContextItem]:
    wire = {"items": [{"id": key, "content": f"text of {key}", "metadata": metadata} for key in ids]}
    return list(parse_context(wire).items)


def answer(summary: object = "short", sources: object = ("a",)) -> str:
    return json.dumps({"summary": summary, "sources": sources})


@pytest.mark.parametrize("marks", MARKS)
def test_what_must_stay(marks: dict[str, object]) -> None:
    """Protected items and parts of a call's group are never summarised, asked for or not."""
    mixed = [*items("a", "b"), *items("x", **marks)]
    assert [item.id for item in summarizable(mixed)] == ["a", "b"]
    with pytest.raises(PipelineError, match="NOT_SUMMARIZABLE"):
        summarizable(mixed, ["a", "x"])


def test_chosen_items() -> None:
    """Named items are taken in the context's order; a missing one is refused, and none is nothing to do."""
    assert [item.id for item in summarizable(items("a", "b", "c"), ["c", "a"])] == ["a", "c"]
    with pytest.raises(PipelineError, match="NOT_SUMMARIZABLE"):
        summarizable(items("a"), ["z"])
    with pytest.raises(PipelineError, match="NOTHING_TO_SUMMARIZE"):
        summarizable([])


def test_items_are_shown_as_data() -> None:
    """The model sees ids and contents as JSON, and its answer is bounded."""
    wire = sample_input(items("a", "b"), max_tokens=50)
    system, data = wire["messages"]
    assert "50 tokens" in system["content"]
    assert json.loads(data["content"])["items"][0] == {"id": "a", "content": "text of a"}
    assert wire["generation"] == {"maxTokens": 100}


def test_update_replaces_exactly_the_items() -> None:
    """The one UPDATE removes the items and adds the summary with where it comes from."""
    sample = text_sample(answer(), tokens=7)
    chosen = items("a", "b")
    accepted = accept_summary(sample, chosen, max_tokens=50)
    assert update_input(accepted, sample, chosen, operation_id="op", model="m") == {
        "removeIds": ["a", "b"],
        "add": [
            {
                "id": "summary:op",
                "content": "short",
                "metadata": {"summaryOf": ["a", "b"], "model": "m", "usage": {"totalTokens": 7}},
            }
        ],
    }


@pytest.mark.parametrize(
    "text",
    [
        answer("  "),
        answer("x" * 201),
        answer(sources=["z"]),
        answer(sources=["a", "a"]),
    ],
)
def test_rejected_summaries(text: str) -> None:
    """An empty summary, one over its budget, and one that rests on unknown items are rejected."""
    with pytest.raises(PipelineError, match="SUMMARY_REJECTED"):
        accept_summary(text_sample(text), items("a"), max_tokens=50)


@pytest.mark.parametrize("text", ["short", answer(""), answer(sources=[]), answer(3), '{"summary": "x"}'])
def test_unreadable_summaries(text: str) -> None:
    """An answer that is not the asked object is invalid, and a cut one incomplete."""
    with pytest.raises(InferError, match="INVALID_MODEL_OUTPUT"):
        accept_summary(text_sample(text), items("a"), max_tokens=50)
    with pytest.raises(InferError, match="INCOMPLETE_MODEL_OUTPUT"):
        accept_summary(text_sample(answer(), finish="length"), items("a"), max_tokens=50)
