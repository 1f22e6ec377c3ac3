"""The named mappings between nodes: stored ids and shapes."""

import pytest

from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.mappings import (
    context_to_memory,
    context_to_messages,
    memory_to_context,
    observation_to_context,
    retrieval_to_context,
)


def test_memory_to_context_names_the_memory_and_its_score():
    """A found memory becomes an ingress item with the memory's id and, as relevance, its score."""
    assert memory_to_context([{"memory": {"id": "m1", "content": "text"}, "score": 0.5}]) == [
        {
            "id": "memory:m1",
            "sourceNode": "MEMORY.SEARCH",
            "content": "text",
            "metadata": {"memoryId": "m1", "relevance": 0.5},
        }
    ]


def test_memory_to_context_without_score_has_no_relevance():
    """A backend that gives no score leaves relevance out, while a score of zero is kept."""
    unscored, zero = memory_to_context(
        [{"memory": {"id": "a", "content": 1}}, {"memory": {"id": "b", "content": 1}, "score": 0}]
    )
    assert unscored["metadata"] == {"memoryId": "a"}
    assert zero["metadata"] == {"memoryId": "b", "relevance": 0}


@pytest.mark.parametrize(
    ("content", "text"),
    [("ü", "ü"), ({"b": 1, "a": ["é"]}, '{"b":1,"a":["é"]}'), (None, "null"), (True, "true"), ("", "")],
)
def test_content_that_is_not_text_becomes_its_json_text(content, text):
    """Strings stay as they are; other content is written as compact JSON in its own key order."""
    [item] = memory_to_context([{"memory": {"id": "m", "content": content}}])
    assert item["content"] == text


def test_retrieval_to_context_prefers_the_candidates_own_id():
    """A candidate is known by its id, else by its source's reference; its score becomes relevance."""
    first, second = retrieval_to_context(
        [
            {"id": "c1", "content": "x", "score": 2, "source": {"ref": "r"}},
            {"content": "y", "source": {"ref": "doc#2"}},
        ]
    )
    assert first == {
        "id": "c1",
        "sourceNode": "RETRIEVAL.SEARCH",
        "content": "x",
        "metadata": {"relevance": 2},
    }
    assert second == {"id": "doc#2", "sourceNode": "RETRIEVAL.SEARCH", "content": "y"}


@pytest.mark.parametrize("candidate", [{"content": "x"}, {"content": "x", "source": {"target": "t"}}])
def test_a_candidate_without_identity_is_an_error(candidate):
    """No id is ever invented for a candidate."""
    with pytest.raises(PipelineError) as caught:
        retrieval_to_context([candidate])
    assert caught.value.code == "CANDIDATE_WITHOUT_ID"


OBSERVATION = {
    "callId": "c7",
    "source": "weather",
    "status": "success",
    "message": {"role": "tool", "content": [{"type": "text", "text": "12 °C"}], "name": "weather"},
}


def test_observation_to_context_keeps_the_messages_content():
    """An observation keeps its content, whatever its shape, under an id made of the call's."""
    assert observation_to_context(OBSERVATION) == {
        "id": "observation:c7",
        "sourceNode": "INTERACTION.OBSERVE",
        "content": [{"type": "text", "text": "12 °C"}],
        "metadata": {"callId": "c7", "source": "weather", "status": "success"},
    }


def test_a_failed_observation_is_raised_by_default_and_added_on_request():
    """A failure enters the context only where the caller asked for it, with its status."""
    failed = {**OBSERVATION, "status": "timeout"}
    with pytest.raises(PipelineError) as caught:
        observation_to_context(failed)
    assert caught.value.code == "OBSERVATION_FAILED"
    added = observation_to_context(failed, on_failed_observation="add")
    assert added["metadata"]["status"] == "timeout"


def test_context_to_memory_makes_one_draft_an_item():
    """A draft holds the item's content as it is and names the item; nothing else is taken over."""
    item = {"id": "i", "content": {"k": [1]}, "metadata": {"priority": 3}}
    assert context_to_memory([item]) == [{"content": {"k": [1]}, "metadata": {"contextItemId": "i"}}]


def test_context_to_messages_ends_with_the_question():
    """Every item is one user message that names it; the question comes last and names none."""
    assert context_to_messages([{"id": "a", "content": "one"}, {"id": "b", "content": [2]}], "why?") == [
        {"role": "user", "content": "one", "metadata": {"contextItemId": "a"}},
        {"role": "user", "content": "[2]", "metadata": {"contextItemId": "b"}},
        {"role": "user", "content": "why?"},
    ]
