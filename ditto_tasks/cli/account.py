"""What one answering pipeline did, as rows that a person can check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from ditto_tasks.client.protocol import Event
from ditto_tasks.context import ContextNodes
from ditto_tasks.context.models import Context, ContextItem, ContextSelection
from ditto_tasks.context.selection import default_select, overlap
from ditto_tasks.context.text import estimated_tokens, terms
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import to_wire
from ditto_tasks.pipelines.bindings import searches_to_update
from ditto_tasks.pipelines.outcomes import output_of


class Hit(NamedTuple):
    """One thing that one search found."""

    search: str
    score: float | None
    item_id: str
    source: str
    text: str


class Weighed(NamedTuple):
    """One item of the context as SELECT came to it: best first, each taken if it still fits."""

    item_id: str
    shared_words: float  # share of the question's words
    tokens: int
    used_before: int
    selected: bool
    text: str


class Ran(NamedTuple):
    """When a step began and how long it took, in ms since the pipeline's first step began."""

    step: str
    began_ms: int
    took_ms: int


def hits_of(search: str, result: JsonValue) -> list[Hit]:
    """The hits of a MEMORY.SEARCH in the order of the backend."""
    found = cast("Sequence[JsonObject]", output_of(result))
    return [_hit(search, cast(JsonObject, each["memory"]), each.get("score")) for each in found]


def _hit(search: str, memory: JsonObject, score: JsonValue) -> Hit:
    metadata = cast(JsonObject, memory.get("metadata") or {})
    source = " › ".join(str(metadata[key]) for key in ("source", "heading") if metadata.get(key))
    points = float(score) if isinstance(score, (int, float)) else None
    return Hit(search, points, f"memory:{memory['id']}", source, str(memory["content"]))


def entered_context(goal: JsonObject, searches: Iterable[JsonValue]) -> Context:
    """The context that UPDATE makes of a goal and of what the searches found."""
    ingress = cast("Sequence[JsonObject]", searches_to_update(list(searches), {})["ingress"])
    return ContextNodes().update(context={"items": [goal]}, ingress=ingress)


def weigh(context: Context, selection: ContextSelection, question: str, budget: int) -> list[Weighed]:
    """Every item in SELECT's order with what was used before it, and whether it was taken."""
    chosen, used, rows = set(selection.selected_item_ids), 0, []
    words = terms(question)
    for item in _in_order(context, question):
        tokens = estimated_tokens(item.inline_bytes)
        selected = item.id in chosen
        rows.append(Weighed(item.id, overlap(words, item), tokens, used, selected, str(item.content)))
        used += tokens if selected else 0
    if used > budget:
        raise ValueError("the selection is over its budget")
    return rows


def _in_order(context: Context, question: str) -> Sequence[ContextItem]:
    request: JsonObject = {"context": to_wire(context), "purpose": "infer", "query": question}
    return default_select(request)


def timeline(events: Iterable[Event]) -> list[Ran]:
    """When the steps ran, from a pipeline's events, whose ids begin with the server's clock in ms."""
    began: dict[str, int] = {}
    rows: list[Ran] = []
    for event in events:
        data = cast("Mapping[str, str]", event.data)
        at_ms = int(event.id.partition("-")[0])
        if event.type == "step" and data["status"] == "started":
            began.setdefault(data["step"], at_ms)
        elif event.type == "step":
            rows.append(Ran(data["step"], began[data["step"]], at_ms - began[data["step"]]))
    first = min(began.values(), default=0)
    return [row._replace(began_ms=row.began_ms - first) for row in sorted(rows, key=lambda row: row.began_ms)]
