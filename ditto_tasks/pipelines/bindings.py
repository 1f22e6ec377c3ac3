"""Bindings: named pure functions `(upstream, input) -> input` between the steps of a pipeline.

A message carries a binding's name only; the function is looked up in the worker. A binding may read
keys of `input` that are meant for itself (`question`, `requireIds`, …) and leaves them out of what
it returns. It raises PipelineError, or the error that the upstream's failed NodeResult tells of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from ditto_tasks.errors import PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.pipelines.mappings import (
    MEMORY_SEARCH,
    RETRIEVAL_SEARCH,
    OnFailedObservation,
    context_to_memory,
    context_to_messages,
    memory_to_context,
    observation_to_context,
    retrieval_to_context,
)
from ditto_tasks.pipelines.outcomes import failure_of, output_of

Binding: TypeAlias = Callable[[JsonValue, JsonObject], JsonObject]


def bind(name: str, upstream: JsonValue, wire: JsonObject, *, bindings: Mapping[str, Binding]) -> JsonObject:
    """The input of a step: what the binding called `name` makes of its predecessor's result."""
    binding = bindings.get(name)
    if binding is None:
        raise PipelineError("UNKNOWN_BINDING", "no binding has this name in this worker", {"binding": name})
    return binding(upstream, wire)


def searches_to_update(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """Results of any searches as ingress; a failed one fails the step unless `onSearchFailure` is skip."""
    answers = upstream if isinstance(upstream, list) else [upstream]
    skip = wire.get("onSearchFailure") == "skip"
    found = [item for answer in answers for item in _found(answer, skip=skip)]
    ingress = [*cast(Sequence[JsonValue], wire.get("ingress", ())), *_first_of_each_id(found)]
    return {**_without(wire, "onSearchFailure"), "ingress": ingress}


def _found(answer: JsonValue, *, skip: bool) -> list[JsonObject]:
    if skip and failure_of(answer) is not None:
        return []
    output = output_of(answer)
    match cast(JsonObject, answer).get("node"):
        case "MEMORY.SEARCH":
            return memory_to_context(output)
        case "RETRIEVAL.SEARCH":
            return retrieval_to_context(cast(JsonObject, output)["candidates"])
        case node:
            raise PipelineError("INVALID_UPSTREAM", "a search was expected before this step", {"node": node})


def _first_of_each_id(items: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Two searches find the same memory: the first one's score stands."""
    seen: set[object] = set()
    for item in items:
        identity = item["id"]
        if identity not in seen:
            seen.add(identity)
            yield item


def _searches_of(node: str) -> Binding:
    def binding(upstream: JsonValue, wire: JsonObject) -> JsonObject:
        answers = upstream if isinstance(upstream, list) else [upstream]
        if any(cast(JsonObject, answer).get("node") != node for answer in answers):
            message = "another search was expected before this step"
            raise PipelineError("INVALID_UPSTREAM", message, {"expected": node})
        return searches_to_update(upstream, wire)

    return binding


def observation_to_update(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """An observation as ingress; `onFailedObservation` is raise (default) or add."""
    policy = cast(OnFailedObservation, wire.get("onFailedObservation", "raise"))
    item = observation_to_context(cast(JsonObject, upstream), on_failed_observation=policy)
    ingress = [*cast(Sequence[JsonValue], wire.get("ingress", ())), item]
    return {**_without(wire, "onFailedObservation"), "ingress": ingress}


def pin_to_update(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """SELECT from the version that the UPDATE before it wrote, and from no later one."""
    return {**wire, "expectedVersion": cast(JsonObject, upstream)["version"]}


def newest_after_update(upstream: JsonValue, wire: JsonObject) -> JsonObject:  # noqa: ARG001 -- a binding's form
    """SELECT from the newest version; its receipt names that of the UPDATE before it as well."""
    return wire


def selection_to_sample(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """Selected items and then `question` as messages; every id of `requireIds` must have been selected."""
    selection = selection_of(upstream)
    require_selected(cast(Sequence[str], wire.get("requireIds", ())), selection)
    items = cast(JsonObject, selection["context"])["items"]
    messages = context_to_messages(items, wire["question"])
    return {**_without(wire, "question", "requireIds"), "messages": list(messages)}


def require_selected(required: Sequence[str], selection: JsonObject) -> None:
    """Raise REQUIRED_ITEM_NOT_SELECTED, naming the ids, unless all were selected."""
    selected = set(cast(Sequence[str], selection["selectedItemIds"]))
    missing = [identity for identity in required if identity not in selected]
    if missing:
        message = "an item that the answer needs was not selected"
        raise PipelineError("REQUIRED_ITEM_NOT_SELECTED", message, {"ids": missing})


def selection_of(upstream: JsonValue) -> JsonObject:
    """The ContextSelection of a SELECT, be it answered plainly or with a receipt around it."""
    result = cast(JsonObject, upstream)
    return cast(JsonObject, result.get("selection", result))


def sample_to_turn(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """The model's message as content of the last item of `add`, which waits for it."""
    *before, answer = cast(Sequence[JsonValue], wire["add"])
    message = cast(JsonObject, cast(JsonObject, output_of(upstream))["message"])
    return {**wire, "add": [*before, {**cast(JsonObject, answer), "content": message["content"]}]}


def context_to_write(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """Items of a Context or ContextSelection as memories; `itemIds` picks some, which must be there."""
    items = cast(list[JsonObject], _items_of(cast(JsonObject, upstream)))
    wanted = cast("Sequence[str] | None", wire.get("itemIds"))
    if wanted is not None:
        by_id = {item["id"]: item for item in items}
        if not set(wanted) <= set(cast(set[str], set(by_id))):
            raise PipelineError("ITEM_NOT_STORED", "an item to remember is not in the context any more")
        items = [by_id[identity] for identity in wanted]
    return {**_without(wire, "itemIds"), "memories": list(context_to_memory(list(items)))}


def _items_of(result: JsonObject) -> JsonValue:
    holder = cast(JsonObject, result.get("selection", result))
    return cast(JsonObject, holder.get("context", holder))["items"]


def sample_to_write(upstream: JsonValue, wire: JsonObject) -> JsonObject:
    """The drafts of `memories`, the last of which gets the model's message as its content."""
    *before, answer = cast(Sequence[JsonValue], wire["memories"])
    message = cast(JsonObject, cast(JsonObject, output_of(upstream))["message"])
    return {**wire, "memories": [*before, {**cast(JsonObject, answer), "content": message["content"]}]}


def _without(wire: JsonObject, *keys: str) -> JsonObject:
    return {key: value for key, value in wire.items() if key not in keys}


BINDINGS: Final[Mapping[str, Binding]] = MappingProxyType(
    {
        "memory->context": _searches_of(MEMORY_SEARCH),
        "retrieval->context": _searches_of(RETRIEVAL_SEARCH),
        "searches->context": searches_to_update,
        "tool->context": observation_to_update,
        "context->memory": context_to_write,
        "context->infer": selection_to_sample,
        "update->select": newest_after_update,
        "update->select pinned": pin_to_update,
        "infer->context": sample_to_turn,
        "infer->memory": sample_to_write,
    }
)
