"""CONTEXT as methods of both clients. What a call gives depends on its keywords, so there are overloads."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypeVar, Unpack, overload

from ditto_tasks.client.models import ContextReply, SelectReply, read_context, read_selection, read_stored
from ditto_tasks.client.node_methods import Domain, Options, ScopeLike, Sender, Wire, call_of, overloaded
from ditto_tasks.client.protocol import Call
from ditto_tasks.json_values import JsonValue

if TYPE_CHECKING:
    from ditto_tasks.context.inputs import SelectStrategy
    from ditto_tasks.context.models import Context, ContextItem, IngressEntry, Source

# pending results: of a receipt, a context, a selection and of nothing
ReceiptP = TypeVar("ReceiptP")
ContextP = TypeVar("ContextP")
SelectionP = TypeVar("SelectionP")
NothingP = TypeVar("NothingP")


class Versioned(Options, total=False):
    """What every node of CONTEXT has, beside `scope`, `reply` and `ditto`."""

    expected_version: str


class Load(Versioned, total=False):
    """Keywords of `context.load`."""

    resolve_references: bool
    consistency: Literal["any", "session"]
    if_absent: bool


class LoadAny(Load, total=False):
    """The same, and what is loaded."""

    scope: ScopeLike
    sources: "Sequence[Source | Wire]"


class Select(Versioned, total=False):
    """Keywords of `context.select`."""

    purpose: Required[Literal["infer", "memory"]]
    query: object
    limit: int
    max_tokens: int
    strategy: "SelectStrategy | Wire"
    consistency: Literal["any", "session"]


class Update(Versioned, total=False):
    """Keywords of `context.update`."""

    add: "Sequence[ContextItem | Wire]"
    ingress: "Sequence[IngressEntry | Wire]"
    remove_ids: Sequence[str]
    on_missing: Literal["fail", "create"]


class Compress(Versioned, total=False):
    """Keywords of `context.compress`."""

    max_tokens: int
    max_items: int
    strategy: "SelectStrategy | Wire"


class SelectAny(Select, total=False):
    """The same, and from what is selected."""

    scope: ScopeLike
    context: "Context | Wire"


class UpdateAny(Update, total=False):
    """The same, and what is updated."""

    scope: ScopeLike
    context: "Context | Wire"


class CompressAny(Compress, total=False):
    """The same, and what is compressed."""

    scope: ScopeLike
    context: "Context | Wire"


class ContextMethods(Domain[Sender], Generic[ReceiptP, ContextP, SelectionP, NothingP]):
    """CONTEXT: working contexts, by `scope` or given as `context`.

    With options in `ditto`, which may say what is replied, the result may be any that there is.
    """

    @overload
    def load(self, *, reply: Literal["none"], **given: Unpack[LoadAny]) -> NothingP: ...
    @overload
    def load(self, *, reply: Literal["context"], **given: Unpack[LoadAny]) -> ContextP: ...
    @overload
    def load(
        self,
        *,
        reply: Literal["receipt"],
        scope: ScopeLike,
        sources: "Sequence[Source | Wire]" = ...,
        **given: Unpack[Load],
    ) -> ReceiptP: ...
    @overload
    def load(
        self, *, scope: ScopeLike, sources: "Sequence[Source | Wire]", **given: Unpack[Load]
    ) -> ReceiptP: ...
    @overload
    def load(self, *, scope: ScopeLike, **given: Unpack[Load]) -> ContextP: ...
    @overload
    def load(self, *, sources: "Sequence[Source | Wire]", **given: Unpack[Load]) -> ContextP: ...
    @overload
    def load(self, *, ditto: Wire, **given: Unpack[LoadAny]) -> ReceiptP | ContextP | NothingP: ...
    @overloaded
    def load(self, **given: Any) -> Call[ContextReply]:
        """A context of sources, stored where there is a scope; of a scope alone what is stored."""
        return call_of("CONTEXT.LOAD", given, _reader(given))

    @overload
    def select(self, *, reply: Literal["none"], **given: Unpack[SelectAny]) -> NothingP: ...
    @overload
    def select(
        self, *, reply: Literal["receipt"], scope: ScopeLike, explain: bool = ..., **given: Unpack[Select]
    ) -> ReceiptP: ...
    @overload
    def select(self, *, reply: Literal["context"] = ..., **given: Unpack[SelectAny]) -> SelectionP: ...
    @overload
    def select(self, *, ditto: Wire, **given: Unpack[SelectAny]) -> ReceiptP | SelectionP | NothingP: ...
    @overloaded
    def select(self, **given: Any) -> Call[SelectReply]:
        """The best items for a purpose, within a count and a token budget."""
        return call_of("CONTEXT.SELECT", given, read_selection)

    @overload
    def update(self, *, reply: Literal["none"], **given: Unpack[UpdateAny]) -> NothingP: ...
    @overload
    def update(self, *, reply: Literal["context"], **given: Unpack[UpdateAny]) -> ContextP: ...
    @overload
    def update(
        self, *, scope: ScopeLike, reply: Literal["receipt"] = ..., **given: Unpack[Update]
    ) -> ReceiptP: ...
    @overload
    def update(self, *, context: "Context | Wire", **given: Unpack[Update]) -> ContextP: ...
    @overload
    def update(self, *, ditto: Wire, **given: Unpack[UpdateAny]) -> ReceiptP | ContextP | NothingP: ...
    @overloaded
    def update(self, **given: Any) -> Call[ContextReply]:
        """Removals, then items, then what other nodes hand in."""
        return call_of("CONTEXT.UPDATE", given, _reader(given))

    @overload
    def compress(self, *, reply: Literal["none"], **given: Unpack[CompressAny]) -> NothingP: ...
    @overload
    def compress(self, *, reply: Literal["context"], **given: Unpack[CompressAny]) -> ContextP: ...
    @overload
    def compress(
        self,
        *,
        scope: ScopeLike,
        reply: Literal["receipt"] = ...,
        explain: bool = ...,
        **given: Unpack[Compress],
    ) -> ReceiptP: ...
    @overload
    def compress(self, *, context: "Context | Wire", **given: Unpack[Compress]) -> ContextP: ...
    @overload
    def compress(self, *, ditto: Wire, **given: Unpack[CompressAny]) -> ReceiptP | ContextP | NothingP: ...
    @overloaded
    def compress(self, **given: Any) -> Call[ContextReply]:
        """What is least worth keeping goes until both budgets hold."""
        return call_of("CONTEXT.COMPRESS", given, _reader(given))


def _reader(given: Wire) -> Callable[[JsonValue], ContextReply]:
    return read_stored if given.get("reply") == "context" else read_context
