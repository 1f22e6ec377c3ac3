"""What calls of the clients return."""

from __future__ import annotations

from typing import TypeAlias

from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.errors import ServiceError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import JsonMap, NodeResult, NonEmptyText, WireModel, from_wire
from ditto_tasks.pipelines.models import Answer


class Receipt(WireModel):
    """What a scoped CONTEXT call tells instead of the whole context.

    Sizes are absent where a repeated call finds that the state has moved on. `selection` and `context`
    are there when SELECT or LOAD {scope} was asked for a receipt, and `explanation` with the option
    `explain`: it is a `SelectionReceipt`.
    """

    scope: JsonMap
    version: NonEmptyText | None = None
    items: int | None = None
    tokens: int | None = None
    operation_id: NonEmptyText | None = None
    replayed: bool = False
    selection: JsonMap | None = None
    context: JsonMap | None = None
    explanation: JsonMap | None = None
    updated_version: NonEmptyText | None = None  # of a pipeline's SELECT: what its UPDATE wrote


ContextReply: TypeAlias = Receipt | Context | None  # by the option `reply`, and whether there was a scope
SelectReply: TypeAlias = Receipt | ContextSelection | None


def read_context(result: JsonValue) -> ContextReply:
    """The reply of LOAD, UPDATE or COMPRESS."""
    if not isinstance(result, dict):
        return None
    return Context.parse(result) if isinstance(result.get("items"), list) else from_wire(Receipt, result)


def read_selection(result: JsonValue) -> SelectReply:
    """The reply of SELECT."""
    if not isinstance(result, dict):
        return None
    return ContextSelection.parse(result) if "selectedItemIds" in result else from_wire(Receipt, result)


def read_node_result(result: JsonValue) -> NodeResult:
    """The reply of a MEMORY, INFER or RETRIEVAL node."""
    return from_wire(NodeResult, result, error=ServiceError)


def read_json(result: JsonValue) -> JsonValue:
    """A reply as it came."""
    return result


def read_answer(result: JsonValue) -> Answer:
    """What a pipeline answers."""
    return from_wire(Answer, result, error=ServiceError)
