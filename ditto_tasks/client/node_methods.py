"""What makes a node's method of one declaration: for both clients, with its own keywords and result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, Signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
    get_args,
    get_overloads,
    overload,
)

from ditto_tasks.client.protocol import Call, camel, node_call
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import Scope
from ditto_tasks.task import OPTIONS_KEY, TaskOptions

if TYPE_CHECKING:
    from ditto_tasks.client.aio import AsyncPending
    from ditto_tasks.client.sync import Pending

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="Sender")

Wire: TypeAlias = Mapping[str, object]  # a JSON object: what stands for a model, too
ScopeLike: TypeAlias = Scope | Mapping[str, JsonValue]
_OPTIONS: Final = frozenset(TaskOptions.model_fields)  # no node's input has a field of such a name


class Options(TypedDict, total=False):
    """The options of every node but `ditto`, which holds options by their wire names."""

    operation_id: str | None
    deadline_ms: int | None


class AllOptions(Options, total=False):
    """The options of MEMORY and RETRIEVAL."""

    ditto: Wire


class ActingOptions(AllOptions, total=False):
    """The options of INFER and INTERACTION."""

    timeout_ms: int | None
    tenant: str | None
    on_unknown: Literal["fail", "repeat"]


class Sender(Protocol):
    """A client as its methods see it."""

    def send(self, call: Call[R]) -> object:
        """Publish a call; returns its pending result."""


class SyncSender(Sender, Protocol):
    """A client whose pending results are waited for by blocking."""

    def send(self, call: Call[R]) -> Pending[R]: ...


class AsyncSender(Sender, Protocol):
    """A client whose pending results are awaited."""

    def send(self, call: Call[R]) -> AsyncPending[R]: ...


class Domain(Generic[C]):
    """The nodes of one domain."""

    def __init__(self, client: C) -> None:
        self.client = client


class Method(Generic[P, R]):
    """A node's method, declared by the function that makes the call: its keywords are the method's.

    An unknown keyword is a TypeError, before anything is sent. At run time wire names are taken as well.
    """

    def __init__(self, build: Callable[Concatenate[Any, P], Call[R]]) -> None:
        self._build: Callable[..., Call[R]] = build
        self.__doc__ = build.__doc__

    @property
    def node(self) -> str:
        """The node type that is called."""
        return self._build(None).node

    @property
    def declarations(self) -> Sequence[Callable[..., object]]:
        """The function that declares it, or its overloads."""
        return get_overloads(self._build) or [self._build]

    @cached_property
    def signature(self) -> Signature:
        """The keywords of all declarations; required is what all require."""
        declared = [_keywords(function) for function in self.declarations]
        names = {name: all(each.get(name, False) for each in declared) for each in declared for name in each}
        return Signature(
            [
                Parameter(name, Parameter.KEYWORD_ONLY, default=Parameter.empty if required else ...)
                for name, required in names.items()
            ]
        )

    @cached_property
    def _names(self) -> Mapping[str, str]:
        names = self.signature.parameters
        return {camel(name): name for name in names} | {name: name for name in names}

    @overload
    def __get__(self, domain: Domain[SyncSender], owner: object = None) -> Callable[P, Pending[R]]: ...
    @overload
    def __get__(self, domain: Domain[AsyncSender], owner: object = None) -> Callable[P, AsyncPending[R]]: ...
    @overload
    def __get__(self, domain: None, owner: object = None) -> Self: ...
    def __get__(self, domain: Domain[C] | None, owner: object = None) -> object:
        if domain is None:
            return self

        def method(**given: object) -> object:
            return domain.client.send(self._build(domain, **self._known(given)))

        method.__signature__ = self.signature  # type: ignore[attr-defined]  # what `inspect` looks for
        method.__doc__ = self.__doc__
        return method

    def _known(self, given: Mapping[str, object]) -> dict[str, object]:
        known: dict[str, object] = {}
        for name, value in given.items():
            keyword = self._names.get(name)
            if keyword is None or keyword in known:
                fault = "an unexpected keyword argument" if keyword is None else "two values for"
                raise TypeError(f"{self._build.__qualname__}() got {fault} {name!r}")
            known[keyword] = value
        return known


def overloaded(build: Callable[..., Call[R]]) -> Callable[..., Any]:
    """A method whose type is that of its overloads."""
    return Method(build)  # type: ignore[return-value]  # a descriptor; its overloads say what it is called with


def call_of(node: str, given: Mapping[str, object], read: Callable[[JsonValue], R]) -> Call[R]:
    """The call of a node by the keywords of its method; TypeError for an option that is given twice."""
    options = {camel(name): given[name] for name in given if name in _OPTIONS}
    held = {camel(name): value for name, value in cast("Wire", given.get(OPTIONS_KEY) or {}).items()}
    if twice := options.keys() & held.keys():
        raise TypeError(f"given as a keyword and in {OPTIONS_KEY!r}: {', '.join(sorted(twice))}")
    wire = {name: value for name, value in given.items() if name not in _OPTIONS and name != OPTIONS_KEY}
    asked = held | {name: value for name, value in options.items() if value is not None}
    return node_call(node, {**wire, OPTIONS_KEY: asked} if asked else wire, read)


def _keywords(function: Callable[..., object]) -> dict[str, bool]:
    """The keywords of a declaration, each with whether it is required."""
    keywords: dict[str, bool] = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind is Parameter.KEYWORD_ONLY:
            keywords[each.name] = each.default is Parameter.empty
        elif each.kind is Parameter.VAR_KEYWORD:
            (unpacked,) = get_args(each.annotation)
            keywords |= {name: name in unpacked.__required_keys__ for name in unpacked.__annotations__}
    return keywords
