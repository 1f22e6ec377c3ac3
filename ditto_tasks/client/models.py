"""What calls of the clients return."""

from __future__ import annotations

from typing import Any, Generic, TypeAlias, TypeVar, cast

from pydantic import BaseModel, RootModel

from ditto_tasks.context.models import Context, ContextSelection
from ditto_tasks.errors import ContextError, ServiceError
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import JsonMap, NodeResult, NonEmptyText, WireModel, from_wire, to_wire
from ditto_tasks.nodes import NODES
from ditto_tasks.pipelines.models import Answer
from ditto_tasks.pipelines.outcomes import output_of

OutputT = TypeVar("OutputT")


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


class NodeReply(NodeResult, Generic[OutputT]):
    """The NodeResult of a node whose output has a model."""

    def value(self) -> OutputT:
        """The output as its model. A failure is raised as the error of the node's domain, with its code."""
        return cast("OutputT", read_output(self.node, output_of(to_wire(self))))


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


def read_stored(result: JsonValue) -> ContextReply:
    """The reply of a call that asked for the context: there is none where a repeated call finds no state."""
    if result is None:
        raise ContextError(
            "CONTEXT_NOT_FOUND", "the call had been answered before, and its scope has no state"
        )
    return read_context(result)


def read_reply(result: JsonValue) -> NodeReply[Any]:
    """The reply of a MEMORY, INFER or RETRIEVAL node."""
    return from_wire(NodeReply, result, error=ServiceError)


def read_output(node: str, output: JsonValue) -> object:
    """What a node gives, as its model, or as a tuple of them."""
    row = NODES.get(node)
    if row is None:
        raise ServiceError.invalid_input("/node", "is none that has a model")
    model = cast("type[BaseModel]", row.output_model)
    if row.lists_output:
        if not isinstance(output, list):
            raise ServiceError.invalid_input("/output", "must be an array")
        return tuple(from_wire(model, each, error=ServiceError) for each in output)
    read = from_wire(model, output, error=ServiceError)
    return read.root if isinstance(read, RootModel) else read


def read_json(result: JsonValue) -> JsonValue:
    """A reply as it came."""
    return result


def read_answer(result: JsonValue) -> Answer:
    """What a pipeline answers."""
    return from_wire(Answer, result, error=ServiceError)
