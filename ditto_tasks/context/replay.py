"""Confirming a receipt: the same run again, from the context, the request and the receipt alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ditto_tasks.context.base import ContextExecution, ContextServices
from ditto_tasks.context.conversations.selector import NAME, ConversationCompressor, ConversationSelector
from ditto_tasks.context.inputs import CompressInput, SelectInput
from ditto_tasks.context.models import Context, ContextItem, ContextSelection
from ditto_tasks.context.nodes.compress import compress_node_steps
from ditto_tasks.context.nodes.select import select_steps
from ditto_tasks.context.policy import ContextPolicy
from ditto_tasks.context.receipts import Recording, Request, SelectionReceipt, content_digest
from ditto_tasks.context.steps import drive
from ditto_tasks.errors import ContextError
from ditto_tasks.json_values import JsonObject, JsonValue, freeze
from ditto_tasks.models import from_wire

_SELECT: Final = "CONTEXT.SELECT"


@dataclass(frozen=True, slots=True)
class _Estimates:
    """The estimator of the first run, as far as it was asked."""

    tokens: JsonObject

    def estimate(self, content: JsonValue, _execution: ContextExecution) -> int | None:
        found = self.tokens.get(content_digest(content))
        return found if isinstance(found, int) else None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a foreign strategy answered in the first run, as far as it was looked at."""

    items: Sequence[ContextItem]

    def select(self, _request: SelectInput, _execution: ContextExecution) -> Sequence[ContextItem]:
        return self.items

    def compress(self, _request: CompressInput, _execution: ContextExecution) -> Context:
        return Context.assemble({"items": tuple(self.items)})


def confirm(
    receipt: SelectionReceipt | JsonObject,
    context: Context | JsonObject,
    request: Request | Mapping[str, object],
) -> Context | ContextSelection:
    """The result that the receipt stands for, or RECEIPT_MISMATCH. Pure: no service is called.

    INVALID_INPUT names the path of what makes a receipt or a request none.

    `request` may have any scope: what counts is the context that was read from it then.
    """
    receipt = from_wire(SelectionReceipt, receipt, error=ContextError)
    asked = _request(receipt, Context.parse(context), request)
    recording = Recording()
    execution = ContextExecution(
        ContextPolicy.parse(receipt.policy), _services(receipt, asked), recorder=recording
    )
    result: Context | ContextSelection
    if isinstance(asked, SelectInput):
        result = drive(select_steps(asked, execution))
    else:
        result = drive(compress_node_steps(asked, execution))
    again = recording.receipt(result)
    if again != receipt:
        raise ContextError("RECEIPT_MISMATCH", f"the run does not come out so: {_difference(receipt, again)}")
    return result


def _request(receipt: SelectionReceipt, context: Context, request: Request | Mapping[str, object]) -> Request:
    wire = request.wire_form() if isinstance(request, (SelectInput, CompressInput)) else request
    fields = {key: value for key, value in wire.items() if key not in ("scope", "expectedVersion")}
    model = SelectInput if receipt.node == _SELECT else CompressInput
    return model.parse({**fields, "context": context})


def _services(receipt: SelectionReceipt, request: Request) -> ContextServices:
    estimator = None if receipt.estimates is None else _Estimates(receipt.estimates)
    answer = _Answer(_answered(receipt, request))
    named = receipt.strategy == NAME
    compressor = None if receipt.strategy == "default" else ConversationCompressor() if named else answer
    return ContextServices(
        token_estimator=estimator,
        selector=ConversationSelector() if named else answer,
        rag_strategy=answer,
        compressor=compressor,
    )


def _answered(receipt: SelectionReceipt, request: Request) -> list[ContextItem]:
    """The items that the strategy gave, from the context or, if it made them, from the receipt."""
    known = {item.id: item for item in (request.context.items if request.context else ())}
    looked_at = [each for each in receipt.entries if each.used is not None or each.verdict == "kept"]
    made = {each.id: ContextItem.parse(freeze(each.item)) for each in looked_at if each.item is not None}
    return [{**known, **made}[each.id] for each in looked_at if each.id in made or each.id in known]


def _difference(told: SelectionReceipt, again: SelectionReceipt) -> str:
    for name in SelectionReceipt.model_fields:
        if name != "entries" and getattr(told, name) != getattr(again, name):
            return name
    pairs = zip(told.entries, again.entries, strict=False)
    return next((f"item {mine.id}" for mine, other in pairs if mine != other), "entries")
