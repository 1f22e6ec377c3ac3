"""How one domain's output becomes another's input: pure functions over wire values.

The ids and shapes made here are stored in contexts and memories, so they are contracts: a change
of one is a change of stored data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from ditto_tasks.errors import PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue, text_or_json

MEMORY_SEARCH: Final = "MEMORY.SEARCH"
RETRIEVAL_SEARCH: Final = "RETRIEVAL.SEARCH"
OBSERVE: Final = "INTERACTION.OBSERVE"

UNEXPECTED: Final = "the previous step's result does not have the expected shape"

OnFailedObservation = Literal["raise", "add"]


def memory_to_context(found: JsonValue) -> list[JsonObject]:
    """MEMORY.SEARCH results as ingress of CONTEXT.UPDATE, one item a memory, in their order."""
    return [_memory_item(_object(result)) for result in _array(found)]


def _memory_item(result: JsonObject) -> JsonObject:
    memory = _object(result["memory"])
    metadata: JsonObject = {"memoryId": memory["id"]}
    if result.get("score") is not None:
        metadata["relevance"] = result["score"]
    return {
        "id": f"memory:{memory['id']}",
        "sourceNode": MEMORY_SEARCH,
        "content": text_or_json(memory["content"]),
        "metadata": metadata,
    }


def retrieval_to_context(candidates: JsonValue) -> list[JsonObject]:
    """RETRIEVAL.SEARCH candidates as ingress of CONTEXT.UPDATE; each must have an identity."""
    return [_candidate_item(_object(candidate)) for candidate in _array(candidates)]


def _candidate_item(candidate: JsonObject) -> JsonObject:
    item: JsonObject = {
        "id": candidate_id(candidate),
        "sourceNode": RETRIEVAL_SEARCH,
        "content": text_or_json(candidate["content"]),
    }
    if candidate.get("score") is not None:
        item["metadata"] = {"relevance": candidate["score"]}
    return item


def candidate_id(candidate: Mapping[str, JsonValue]) -> str:
    """The candidate's id, else the reference of its source."""
    source = candidate.get("source")
    identity = candidate.get("id") or (source.get("ref") if isinstance(source, dict) else None)
    if not isinstance(identity, str) or not identity:
        raise PipelineError("CANDIDATE_WITHOUT_ID", "a retrieval candidate has neither id nor source.ref")
    return identity


def observation_to_context(
    observation: JsonObject, *, on_failed_observation: OnFailedObservation = "raise"
) -> JsonObject:
    """An INTERACTION observation as one ingress item; a failed one is an error unless it is to be added."""
    status = observation["status"]
    if status != "success" and on_failed_observation == "raise":
        message = "the observation's status is not success"
        raise PipelineError("OBSERVATION_FAILED", message, {"status": status})
    return {
        "id": f"observation:{observation['callId']}",
        "sourceNode": OBSERVE,
        "content": _object(observation["message"])["content"],
        "metadata": {key: observation[key] for key in ("callId", "source", "status")},
    }


def context_to_memory(items: JsonValue) -> list[JsonObject]:
    """Selected context items as MEMORY drafts, one an item."""
    return [_draft(_object(item)) for item in _array(items)]


def _draft(item: JsonObject) -> JsonObject:
    return {"content": item["content"], "metadata": {"contextItemId": item["id"]}}


def context_to_messages(items: JsonValue, question: JsonValue) -> list[JsonObject]:
    """Selected context items as INFER messages, one an item, and then the question."""
    messages = [_message(_object(item)) for item in _array(items)]
    messages.append({"role": "user", "content": text_or_json(question)})
    return messages


def _message(item: JsonObject) -> JsonObject:
    return {
        "role": "user",
        "content": text_or_json(item["content"]),
        "metadata": {"contextItemId": item["id"]},
    }


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise PipelineError("INVALID_UPSTREAM", UNEXPECTED)
    return value


def _array(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise PipelineError("INVALID_UPSTREAM", UNEXPECTED)
    return value
