"""Why SELECT and COMPRESS kept, dropped or skipped each item, in a form that can be replayed.

A receipt has what was not given with the request: the policy's ceilings, the scores, the estimates of an
injected estimator, and what a foreign strategy answered. `confirm` runs the request again from the context,
the request and these alone, calling no service, and refuses a receipt that does not come out the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ditto_tasks.canonical import stable_id
from ditto_tasks.context.base import ContextExecution
from ditto_tasks.context.compression import Budget
from ditto_tasks.context.conversations.selector import NAME as CONVERSATION
from ditto_tasks.context.conversations.selector import ConversationCompressor, ConversationSelector
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.models import Context, ContextItem, ContextSelection
from ditto_tasks.context.named import the_compressor, the_selector
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.context.selection import may_be_remembered
from ditto_tasks.json_values import JsonObject, JsonValue
from ditto_tasks.models import JsonMap, NonEmptyText, WireModel

Verdict: TypeAlias = Literal["kept", "dropped", "skipped"]
Request: TypeAlias = SelectInput | CompressInput


class ReceiptEntry(WireModel):
    """What became of one item, and why.

    dropped: there was no room; skipped: the strategy did not want it. `used` is the tokens spent once it
    was looked at, in the order of the entries. `unit` numbers what stays or goes together. A score that
    is no finite number is absent. `item` is there if a strategy made it, or changed its content.
    """

    id: NonEmptyText
    verdict: Verdict
    reason: NonEmptyText
    score: float | None = None
    tokens: int | None = None
    used: int | None = None
    unit: int | None = None
    turn: int | None = None
    item: JsonMap | None = None


class SelectionReceipt(WireModel):
    """One SELECT or COMPRESS. `context` and `request` are digests of what it was asked with."""

    node: NonEmptyText
    strategy: NonEmptyText
    context: NonEmptyText
    request: NonEmptyText
    policy: JsonMap
    limit: int
    budget: int | None = None
    items: int
    tokens: int | None = None
    entries: tuple[ReceiptEntry, ...]
    estimates: JsonMap | None = None  # digest of a content -> tokens, where an injected estimator answered


@dataclass(frozen=True, slots=True)
class Explained:
    """A result and its receipt."""

    result: Context | ContextSelection
    receipt: SelectionReceipt

    @classmethod
    def of(cls, result: Context | ContextSelection, recording: Recording) -> Explained:
        return cls(result, recording.receipt(result))


@dataclass(slots=True)
class Recording:
    """The recorder of one run; `receipt` afterwards tells what was noted."""

    request: Request | None = None
    execution: ContextExecution | None = None
    notes: dict[str, JsonObject] = field(default_factory=dict)
    made: dict[str, ContextItem] = field(default_factory=dict)
    estimates: JsonObject = field(default_factory=dict)
    finished: SelectionReceipt | None = None

    def finish(self, result: Context | ContextSelection) -> None:
        """Keep the receipt. LOAD and UPDATE leave none."""
        if self.request is not None:
            self.finished = self.receipt(result)

    def begin(self, request: Request, execution: ContextExecution) -> None:
        self.request, self.execution = request, execution

    def note(self, item: ContextItem, **facts: JsonValue) -> None:
        self.made[item.id] = item
        self.notes.setdefault(item.id, {}).update(facts)

    def estimated(self, content: JsonValue, tokens: int) -> None:
        self.estimates[content_digest(content)] = tokens

    def receipt(self, result: Context | ContextSelection) -> SelectionReceipt:
        """What the run that ended in `result` noted."""
        request, execution = self.request, self.execution
        assert request is not None  # noqa: S101 -- a node that ended has begun
        assert execution is not None  # noqa: S101 -- as above
        shown = result.context if isinstance(result, ContextSelection) else result
        entries = self._entries(request, shown)
        budget = Budget.of(request, execution)
        tokens = sum(each.tokens or 0 for each in entries if each.verdict == "kept")
        values: dict[str, object] = {
            "node": "CONTEXT.SELECT" if isinstance(request, SelectInput) else "CONTEXT.COMPRESS",
            "strategy": strategy_of(request, execution),
            "context": digest_of(request),
            "request": digest_of(request, of_context=False),
            "policy": _ceilings(execution.policy),
            "limit": budget.items,
            "budget": budget.tokens,
            "items": len(shown.items),
            "tokens": None if budget.tokens is None else tokens,
            "entries": tuple(entries),
            "estimates": dict(sorted(self.estimates.items())) or None,
        }
        return SelectionReceipt.model_validate(
            {key: each for key, each in values.items() if each is not None}
        )

    def _entries(self, request: Request, shown: Context) -> list[ReceiptEntry]:
        before = {item.id: item for item in (request.context.items if request.context else ())}
        kept = {item.id: item for item in shown.items}
        looked_at = [item_id for item_id, facts in self.notes.items() if "used" in facts]
        looked_at.sort(key=lambda item_id: _number(self.notes[item_id].get("place")))
        others = [item_id for item_id in before if item_id not in set(looked_at)]
        return [self._entry(item_id, request, before, kept) for item_id in (*looked_at, *others)]

    def _entry(
        self, item_id: str, request: Request, before: dict[str, ContextItem], kept: dict[str, ContextItem]
    ) -> ReceiptEntry:
        facts = {key: value for key, value in self.notes.get(item_id, {}).items() if key != "place"}
        if item_id in kept:
            facts |= {"verdict": "kept", "reason": facts.get("reason", "fits")}
        elif "verdict" in facts:
            facts.setdefault("reason", "over the token budget")
        else:
            facts |= _unwanted(before[item_id], request, scored="score" in facts)
        if not math.isfinite(_number(facts.get("score"))):
            del facts["score"]
        item = kept.get(item_id) or self.made.get(item_id)
        if item is not None and item != before.get(item_id):
            facts["item"] = item.wire_form()
        return ReceiptEntry.model_validate({"id": item_id, **facts})


def _unwanted(item: ContextItem, request: Request, *, scored: bool) -> JsonObject:
    """Of an item that the walk never came to."""
    if isinstance(request, SelectInput) and request.purpose == "memory" and not may_be_remembered(item):
        return {"verdict": "skipped", "reason": "not eligible for memory"}
    if scored:
        return {"verdict": "dropped", "reason": "the limit was reached"}
    return {"verdict": "skipped", "reason": "not among the strategy's results"}


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def strategy_of(request: Request, execution: ContextExecution) -> str:
    """default, rag, conversation, or provider: and the name of a foreign one."""
    strategy, services = request.strategy, execution.services
    if isinstance(request, SelectInput):
        if strategy is None or strategy.kind != "provider":
            return strategy.kind if strategy else "default"
        serves: object = the_selector(services, strategy)
    else:
        serves = the_compressor(services, strategy)
        if serves is None:
            return "default"
    if isinstance(serves, (ConversationSelector, ConversationCompressor)):
        return CONVERSATION
    return f"provider:{strategy.name if strategy else ''}"


def digest_of(request: Request, *, of_context: bool = True) -> str:
    """A digest of the request's context, or of all the rest of it."""
    if of_context:
        return stable_id("context", {} if request.context is None else request.context.wire_form())
    rest = {key: value for key, value in request.wire_form().items() if key in _ASKED}
    return stable_id("request", rest)


_ASKED = frozenset({"purpose", "query", "limit", "maxTokens", "maxItems", "strategy"})


def content_digest(content: JsonValue) -> str:
    return stable_id("content", content)[: len("content:") + 32]


def _ceilings(policy: ContextPolicy) -> JsonObject:
    named = ("maxInlineBytes", "maxItems", "maxTokens")
    wire = policy.wire_form()
    return {name: wire[name] for name in named if wire.get(name) is not None}
