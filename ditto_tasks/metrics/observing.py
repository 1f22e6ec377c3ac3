"""What one ended task adds to the counts. Pure, and no label comes from content."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ditto_tasks.errors import DittoError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.metrics.counts import SEPARATOR
from ditto_tasks.pipelines.outcomes import RAISED

MODEL: Final = re.compile(r"[A-Za-z0-9._:/@+-]{1,64}")
OTHER: Final = "other"
LATENCY_MS: Final = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)  # upper bounds
UNKNOWN: Final = frozenset({"STATE_OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"})
INVALID: Final = frozenset({"INVALID_MODEL_OUTPUT", "INCOMPLETE_MODEL_OUTPUT", "UNDECLARED_ACTION"})
USAGE: Final = {"inputTokens": "input", "outputTokens": "output", "reasoningTokens": "reasoning"}


@dataclass(frozen=True, slots=True)
class Ended:
    """One ended task: its value, or the error that it raised."""

    node: str
    value: JsonValue
    error: BaseException | None
    took_ms: int
    model: str | None  # that an INFER call named, or the configured one


def counts_of(task: Ended) -> dict[str, int]:
    """Names with labels, as `exposition` knows them, and what to add."""
    return {SEPARATOR.join(name): number for name, number in _counts(task) if number}


def model_label(name: str | None) -> str:
    """A model as a label: it comes from callers, so anything unlike a name is `other`."""
    return name if name is not None and MODEL.fullmatch(name) else OTHER


def _counts(task: Ended) -> Iterator[tuple[tuple[str, ...], int]]:
    code, value = _code(task), _object(task.value)
    yield ("calls", task.node, "failed" if code else "success"), 1
    if code == "STATE_CONFLICT":
        yield ("conflicts", task.node), 1
    if code in UNKNOWN:
        yield ("unknown_outcomes", task.node), 1
    if value.get("replayed") is True:
        yield ("replays", task.node), 1
    if task.node == "CONTEXT.SELECT" and not code:
        yield ("selections",), 1
        yield ("selected_items",), _selected(value)
    elif task.node == "RETRIEVAL.SEARCH":
        yield ("retrieval_candidates",), _size(_output(value).get("candidates"))
    elif task.node.startswith("INFER.REASONING."):
        yield from _of_inference(task, code, value)


def _of_inference(
    task: Ended, code: str | None, value: Mapping[str, JsonValue]
) -> Iterator[tuple[tuple[str, ...], int]]:
    output = _output(value)
    model = model_label(task.model) if not code or code in INVALID else OTHER  # else nobody knows the model
    yield ("infer_calls", model), 1
    yield ("infer_latency", model, _bucket(task.took_ms)), 1
    yield ("infer_latency_sum", model), task.took_ms
    if code in INVALID:
        yield ("infer_invalid", model), 1
    reason = output.get("finishReason")
    if isinstance(reason, str):
        yield ("infer_finish", model, reason), 1
    usage = _object(output.get("usage"))
    for name, kind in USAGE.items():
        number = usage.get(name)
        if type(number) is int:
            yield ("infer_tokens", model, kind), number


def _code(task: Ended) -> str | None:
    """The code of a failure, be it raised or a failed NodeResult."""
    if task.error is not None:
        return task.error.code if isinstance(task.error, DittoError) else type(task.error).__name__
    value = _object(task.value)
    if RAISED in value:  # a flow's step: its error is what the flow goes on from
        return str(_object(value[RAISED]).get("code"))
    if value.get("status") not in {"failed", "timeout"}:
        return None
    return str(_object(value.get("error")).get("code"))


def _output(value: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    return _object(value.get("output"))


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    return value if isinstance(value, Mapping) else {}


def _selected(value: Mapping[str, JsonValue]) -> int:
    selection = _object(value.get("selection")) or value  # in a receipt, or the whole value
    return _size(selection.get("selectedItemIds"))


def _size(value: JsonValue) -> int:
    return len(value) if isinstance(value, list) else 0


def _bucket(took_ms: int) -> str:
    at = bisect_left(LATENCY_MS, took_ms)
    return str(LATENCY_MS[at]) if at < len(LATENCY_MS) else "inf"
