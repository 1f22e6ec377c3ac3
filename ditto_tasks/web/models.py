"""What HTTP requests and answers hold.

Bodies are shown in OpenAPI as the nodes' own models, and go to the nodes as they came: these have the
checks, and name the paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from ditto_tasks.context.inputs import SelectStrategy
from ditto_tasks.context.models import (
    Context,
    ContextItem,
    ContextSelection,
    IngressEntry,
    Purpose,
    Source,
)
from ditto_tasks.context.receipts import SelectionReceipt
from ditto_tasks.json_values import InvalidJson, JsonValue
from ditto_tasks.models import Count, Json, JsonMap, NonEmptyText, Scope, WireModel

SCOPE_IDS: Final = frozenset({"turnId", "invocationId"})


def as_it_came(value: object) -> object:
    return value


if TYPE_CHECKING:
    Sources = tuple[Source, ...] | None
    Items = tuple[ContextItem, ...] | None
    Ingress = tuple[IngressEntry, ...] | None
    Ids = tuple[str, ...] | None
    Limit = int | None
    Strategy = SelectStrategy | None
    Chosen = Purpose
    Query = JsonValue
    Flag = bool | None
else:
    Sources = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=tuple[Source, ...])]
    Items = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=tuple[ContextItem, ...])]
    Ingress = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=tuple[IngressEntry, ...])]
    Ids = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=tuple[str, ...])]
    Limit = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=Count)]
    Strategy = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=SelectStrategy)]
    Chosen = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=Purpose)]
    Query = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=Json)]
    Flag = Annotated[object, PlainValidator(as_it_came, json_schema_input_type=bool)]


class Body(WireModel):
    """A request's body. What could not be read as JSON arrives here as its error: the caller comes first."""

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if isinstance(value, InvalidJson):
            about = {"path": value.path, "reason": value.reason}
            raise PydanticCustomError("json", "not JSON: {reason}", about)
        if not isinstance(value, dict):
            raise PydanticCustomError("object", "must be a JSON object, sent as application/json")
        return value

    def given(self) -> dict[str, JsonValue]:
        """What was sent, by its name on the wire."""
        fields = type(self).model_fields
        return {fields[name].alias or name: getattr(self, name) for name in self.model_fields_set}


class LoadBody(Body):
    """Sources become the session's context; without any the stored context is read."""

    sources: Sources = None
    resolve_references: Flag = None


class SelectBody(Body):
    """The best items for a purpose, within a count and a token budget."""

    purpose: Chosen
    query: Query = None
    limit: Limit = None
    max_tokens: Limit = None
    strategy: Strategy = None


class UpdateBody(Body):
    """Removals, then items, then what other nodes hand in."""

    add: Items = None
    ingress: Ingress = None
    remove_ids: Ids = None


class CompressBody(Body):
    """The least worth keeping goes until both budgets hold."""

    max_tokens: Limit = None
    max_items: Limit = None
    strategy: Strategy = None


CONTEXT_BODIES: Final[Mapping[str, type[Body]]] = {
    "CONTEXT.LOAD": LoadBody,
    "CONTEXT.SELECT": SelectBody,
    "CONTEXT.UPDATE": UpdateBody,
    "CONTEXT.COMPRESS": CompressBody,
}


class CallQuery(WireModel):
    """Which of the session's states is meant: each set of ids is one of its own."""

    turn_id: NonEmptyText | None = None
    invocation_id: NonEmptyText | None = None

    def ids(self) -> dict[str, JsonValue]:
        """The ids beside the session's."""
        return {name: value for name, value in self.wire_form().items() if name in SCOPE_IDS}

    def options(self) -> dict[str, JsonValue]:
        """The rest: options of the task."""
        return {name: value for name, value in self.wire_form().items() if name not in SCOPE_IDS}


class LoadQuery(CallQuery):
    """With `ifAbsent` a context that is there already is left alone.

    Consistency `session` reads after the session's earlier writes; `any` may be behind, and is faster.
    """

    consistency: Literal["any", "session"] | None = None
    if_absent: bool | None = None


class SelectQuery(CallQuery):
    """With `explain` the answer says of each item why it was kept, dropped or skipped."""

    consistency: Literal["any", "session"] | None = None
    explain: bool | None = None


class CompressQuery(CallQuery):
    """With `explain` the answer says of each item why it was kept or dropped."""

    explain: bool | None = None


class UpdateQuery(CallQuery):
    """What happens where the session has no context yet."""

    on_missing: Literal["fail", "create"] | None = None


CONTEXT_QUERIES: Final[Mapping[str, type[CallQuery]]] = {
    "CONTEXT.LOAD": LoadQuery,
    "CONTEXT.SELECT": SelectQuery,
    "CONTEXT.UPDATE": UpdateQuery,
    "CONTEXT.COMPRESS": CompressQuery,
}


class AnswerBody(Body):
    """A question to the session. What is searched, and which model answers, is the application's choice."""

    question: NonEmptyText
    init: Sources = None  # what the context holds if there is none yet
    create: bool = False  # ask an empty context if there is none yet
    select_limit: Count | None = None
    max_tokens: Count | None = None
    require_ids: tuple[NonEmptyText, ...] = ()
    store_turn: bool = True


class ContextAnswer(WireModel):
    """What a CONTEXT node did. Sizes are absent where a repeated call finds that the state has moved on."""

    task_id: NonEmptyText
    scope: Scope
    version: NonEmptyText | None = None
    items: int | None = None
    tokens: int | None = None
    operation_id: NonEmptyText | None = None
    replayed: bool | None = None
    context: Context | None = None
    selection: ContextSelection | None = None
    explanation: SelectionReceipt | None = None


class Failure(BaseModel):
    """Why a request or a task failed. `path` is a JSON pointer into what `where` names."""

    code: str
    message: str
    where: Literal["body", "query", "path", "header"] | None = None
    path: str | None = None
    currentVersion: str | None = None  # noqa: N815 -- a name of the wire


class TaskState(WireModel):
    """A task as it stands. A finished one has a result, a failed one an error."""

    id: NonEmptyText
    status: Literal["running", "success", "failed", "cancelled"]
    result: Json = None
    error: JsonMap | None = None


class Problem(BaseModel):
    """The body of every answer that is not a success."""

    error: Failure
