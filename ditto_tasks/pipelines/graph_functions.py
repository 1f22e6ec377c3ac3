"""Functions of graphs and loops by name: they are registered where they are defined, and sent as names.

Whoever builds a graph and every worker that runs it import the module (DITTO_EXTENSIONS names it). What is
not registered is looked for among the `bindings` of a worker's extensions. All are pure: a node that is run
again asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar, cast

from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue

GraphBinding: TypeAlias = Callable[[JsonValue, Mapping[str, JsonValue]], JsonObject]
AnyFunction: TypeAlias = Callable[..., object]
Functions: TypeAlias = Mapping[str, AnyFunction]

MoreFunctions: TypeAlias = Callable[[], Functions]

F = TypeVar("F", bound=AnyFunction)


def graph_function(name: str) -> Callable[[F], F]:
    """Register a pure function under a name: a binding `(run input, {dependency: output}) -> input`, or
    one of a loop's. The same name for another function is refused; the module may be imported again.
    """

    def register(function: F) -> F:
        known = _REGISTERED.setdefault(name, function)
        if _place(known) != _place(function):
            raise PipelineError("BINDING_EXISTS", "another function has this name", {"binding": name})
        _REGISTERED[name] = function
        return function

    return register


def no_more() -> Functions:
    """No functions beside the registered ones."""
    return {}


def is_known(name: str) -> bool:
    """Whether this process has a function of this name."""
    return name in _REGISTERED


def call(name: str, *arguments: object, more: MoreFunctions = no_more) -> JsonValue:
    """What the function called `name` gives; UNKNOWN_BINDING, its own typed error, or BINDING_FAILED.

    `more` is asked where none is registered, for it opens extensions; their modules may register some.
    """
    function = _REGISTERED.get(name) or more().get(name) or _REGISTERED.get(name)
    if function is None:
        raise PipelineError("UNKNOWN_BINDING", "no function has this name in this process", {"binding": name})
    try:
        return cast(JsonValue, function(*arguments))
    except DittoError:
        raise
    except Exception as exc:  # an application's code; its text may hold content
        kind = type(exc).__name__
        raise PipelineError("BINDING_FAILED", f"a function met {kind}", {"binding": name}) from exc


def run_input(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:  # noqa: ARG001 -- a binding's form
    """The input of the run as the input of the node."""
    return _object(given)


def only_output(given: JsonValue, outputs: Mapping[str, JsonValue]) -> JsonObject:  # noqa: ARG001 -- a binding's form
    """The output of the one dependency as the input of the node."""
    if len(outputs) != 1:
        raise PipelineError("INVALID_UPSTREAM", "this binding takes exactly one dependency")
    return _object(next(iter(outputs.values())))


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise PipelineError("INVALID_UPSTREAM", "the input of a node is an object")
    return value


def _place(function: AnyFunction) -> tuple[object, object]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


_REGISTERED: Final[dict[str, AnyFunction]] = {"run input": run_input, "only output": only_output}
