"""Frozen values shared by all domains, and their wire form.

On the wire keys are camelCase and absent optional keys are left out; in Python attributes are
snake_case and absent is None. Text and content are checked here, not by pydantic's own string
type, which refuses lone surrogates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Self, TypeAlias, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.canonical import check_scope
from ditto_tasks.errors import DittoError, NodeInputError
from ditto_tasks.json_values import (
    MESSAGE_DEPTH,
    TOO_DEEP,
    FrozenDict,
    FrozenList,
    InvalidJson,
    JsonObject,
    JsonValue,
    freeze,
    pointer,
)

__all__ = [
    "CancelToken",
    "Count",
    "Finite",
    "Json",
    "JsonMap",
    "NodeError",
    "NodeInput",
    "NodeResult",
    "NonEmptyText",
    "Reference",
    "Scope",
    "Text",
    "WireModel",
    "from_wire",
    "invalid_input",
    "to_wire",
]


class _NullIsValue:
    """Marks a field whose None is JSON null rather than absence."""


def _check_text(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("text", "must be a string")
    return value


def _check_nonempty(value: object) -> str:
    if not _check_text(value):
        raise PydanticCustomError("text", "must not be empty")
    return str(value)


def _check_object(value: object) -> JsonValue:
    if not isinstance(value, dict):
        raise PydanticCustomError("object", "must be an object")
    return _check_json(value)


def _check_json(value: object) -> JsonValue:
    try:
        return freeze(value)
    except InvalidJson as problem:
        about = {"path": problem.path, "reason": problem.reason}
        raise PydanticCustomError("json", "{reason}", about) from None


if TYPE_CHECKING:
    Text = str
    NonEmptyText = str
    Json = JsonValue
    JsonMap = JsonObject
else:
    Text = Annotated[str, PlainValidator(_check_text), WithJsonSchema({"type": "string"})]
    NonEmptyText = Annotated[
        str, PlainValidator(_check_nonempty), WithJsonSchema({"type": "string", "minLength": 1})
    ]
    Json = Annotated[object, PlainValidator(_check_json), WithJsonSchema({}), _NullIsValue()]
    JsonMap = Annotated[dict, PlainValidator(_check_object), WithJsonSchema({"type": "object"})]

Count = Annotated[int, Field(ge=1, le=10_000, strict=True)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # neither true nor "0.5" is a number


class _WireField(NamedTuple):
    attribute: str
    key: str
    always: bool
    null_is_value: bool


class WireModel(BaseModel):
    """A frozen value with a camelCase wire form; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
    )

    def wire_form(self) -> JsonObject:
        """The JSON object for this value; content is shared with it, not copied."""
        wire: JsonObject = {}
        for attribute, key, always, null_is_value in _wire_fields(type(self)):
            value = self.__dict__[attribute]
            if value is not None:
                wire[key] = to_wire(value)
            elif always or (null_is_value and attribute in self.model_fields_set):
                wire[key] = None
        if self.model_extra:
            wire.update(self.model_extra)
        return wire

    @classmethod
    def assemble(cls, values: dict[str, object], extra: FrozenDict | None = None) -> Self:
        """A model of values that were already checked, by field name; absent ones get their default."""
        model = cls.__new__(cls)
        fill(model, {**_defaults(cls), **values}, set(values), extra)
        return model


def fill(model: BaseModel, values: dict[str, object], given: set[str], extra: FrozenDict | None) -> None:
    """Give a new instance its state as pydantic's own `model_construct` does."""
    object.__setattr__(model, "__dict__", values)
    object.__setattr__(model, "__pydantic_fields_set__", given)
    object.__setattr__(model, "__pydantic_extra__", extra)
    object.__setattr__(model, "__pydantic_private__", None)


@cache
def _defaults(model: type[BaseModel]) -> Mapping[str, object]:
    return {name: field.default for name, field in model.model_fields.items() if not field.is_required()}


@cache
def _wire_fields(model: type[BaseModel]) -> tuple[_WireField, ...]:
    return tuple(
        _WireField(name, field.alias or name, field.is_required(), _may_be_null(field))
        for name, field in model.model_fields.items()
    )


def _may_be_null(field: FieldInfo) -> bool:
    parts = (*field.metadata, *_nested_args(field.annotation))
    return any(isinstance(part, _NullIsValue) for part in parts)


def _nested_args(annotation: object) -> tuple[object, ...]:
    args = get_args(annotation)
    return (*args, *(nested for arg in args for nested in _nested_args(arg)))


def to_wire(value: object) -> JsonValue:
    """The JSON form of a model, of models in lists, tuples and dicts, or of what is JSON already.

    Keys are camelCase, absent optional ones left out. TypeError for anything else.
    """
    return _to_wire(value, MESSAGE_DEPTH)


def _to_wire(value: object, levels: int) -> JsonValue:
    """Loops instead of comprehensions: one frame a level."""
    match value:
        case None | bool() | str() | int() | float() | FrozenDict() | FrozenList():
            return value
        case WireModel():
            return value.wire_form()
        case dict() | list() | tuple() if not levels:
            raise InvalidJson("", TOO_DEEP)
        case dict():
            wire: JsonObject = {}
            for key, child in value.items():
                wire[key] = _to_wire(child, levels - 1)
            return wire
        case list() | tuple():
            array: list[JsonValue] = []
            for child in value:
                array.append(_to_wire(child, levels - 1))  # noqa: PERF401 - a comprehension adds a frame
            return array
    raise TypeError(f"{type(value).__name__} has no wire form")


ModelT = TypeVar("ModelT", bound=BaseModel)
NodeInput: TypeAlias = WireModel | Mapping[str, object]  # what a node is called with: its wire form is a dict


def from_wire(model: type[ModelT], data: object, *, error: type[DittoError] = NodeInputError) -> ModelT:
    """`data` as a `model`, or INVALID_INPUT as an `error` whose details name the path.

    The models of CONTEXT raise ContextError in any case: they check themselves.
    """
    if isinstance(data, model):
        return data
    if not isinstance(data, dict):
        raise error.invalid_input("", "must be an object")
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        raise invalid_input(problem, data, error) from None


def invalid_input(problem: ValidationError, data: object, error: type[DittoError]) -> DittoError:
    """INVALID_INPUT as an `error` that names where in `data` pydantic's first problem is."""
    first = problem.errors(include_url=False, include_input=False)[0]
    within = str(first.get("ctx", {}).get("path", ""))
    path = _wire_path(first["loc"], data, missing=first["type"] == "missing")
    return error.invalid_input(path + within, first["msg"])


def _wire_path(loc: tuple[int | str, ...], data: object, *, missing: bool) -> str:
    """Where it is in `data`: pydantic also names the variants of unions, which are no keys of the wire."""
    path: list[int | str] = []
    for at, part in enumerate(loc, 1):
        children: Mapping[object, object] = {}
        if isinstance(data, dict):
            children = data
        elif isinstance(data, (list, tuple)):
            children = dict(enumerate(data))
        if part in children or (missing and at == len(loc)):
            path.append(part)
            data = children.get(part)
    return pointer(*path)


class Scope(WireModel):
    """Which state a call is about. Each set of ids is a scope of its own: nothing falls back."""

    session_id: NonEmptyText | None = None
    turn_id: NonEmptyText | None = None
    invocation_id: NonEmptyText | None = None

    @model_validator(mode="after")
    def _has_an_id(self) -> Self:
        if not self.wire_form():
            raise PydanticCustomError("scope", "needs at least one id")
        return self

    @classmethod
    def parse(cls, scope: object) -> Scope:
        """A scope from its wire form, or ContextError INVALID_INPUT."""
        if isinstance(scope, Scope):
            return scope
        ids = check_scope(scope)
        names = {"sessionId": "session_id", "turnId": "turn_id", "invocationId": "invocation_id"}
        return cls.assemble({names[key]: value for key, value in ids.items()})


class Reference(WireModel):
    """Where something is that is not held inline; `digest` is its maker's, and is not checked."""

    uri: NonEmptyText
    media_type: NonEmptyText | None = None
    digest: NonEmptyText | None = None


class NodeError(WireModel):
    """Why a node failed; the message is public."""

    code: NonEmptyText
    message: Text


class NodeResult(WireModel):
    """What a MEMORY, INFER or RETRIEVAL node answers: a failure is a value, not an exception.

    A success has `output`, the node's own as JSON; all else has `error`.
    """

    execution_id: NonEmptyText
    node: NonEmptyText
    status: Literal["success", "failed", "cancelled", "timeout"]
    output: Json | None = None
    error: NodeError | None = None
