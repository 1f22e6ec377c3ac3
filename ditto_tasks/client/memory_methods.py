"""MEMORY and RETRIEVAL as methods of both clients."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypedDict, Unpack

from ditto_tasks.client.models import NodeReply, read_reply
from ditto_tasks.client.node_methods import AllOptions, C, Domain, Method, Wire, call_of
from ditto_tasks.client.protocol import Call

if TYPE_CHECKING:
    from ditto_tasks.memory.models import (
        DeleteOutput,
        MemoryDraft,
        MemoryItem,
        MemoryPatch,
        MemorySearchResult,
        OrderBy,
        QueryPage,
    )
    from ditto_tasks.retrieval.models import RetrievalOutput, RetrievalQuery, RetrievalTarget


class Get(AllOptions, total=False):
    """Keywords of `memory.get`."""

    ids: Sequence[str] | None
    keys: Sequence[str] | None


class Query(AllOptions, total=False):
    """Keywords of `memory.query`."""

    filter: Wire | None
    limit: int | None
    cursor: str | None
    order_by: "Sequence[OrderBy | Wire] | None"


class Searching(TypedDict, total=False):
    """What both searches have."""

    strategy: str | None
    filter: Wire | None
    limit: int | None
    options: Wire | None


class Search(AllOptions, Searching, total=False):
    """Keywords of `memory.search`."""

    query: Required[object]


class Write(AllOptions, total=False):
    """Keywords of `memory.write`."""

    memories: Required[Sequence["MemoryDraft | Wire"]]


class Update(AllOptions, total=False):
    """Keywords of `memory.update`."""

    memories: Required[Sequence["MemoryPatch | Wire"]]


class Delete(AllOptions, total=False):
    """Keywords of `memory.delete`."""

    ids: Required[Sequence[str]]


class Retrieve(AllOptions, Searching, total=False):
    """Keywords of `retrieval.search`."""

    query: Required["RetrievalQuery | Wire"]
    target: Required["RetrievalTarget | Wire"]


class MemoryMethods(Domain[C]):
    """MEMORY: durable memories."""

    @Method
    def get(self, **given: Unpack[Get]) -> "Call[NodeReply[tuple[MemoryItem, ...]]]":
        """The records of these ids and keys; what is missing is left out."""
        return call_of("MEMORY.GET", given, read_reply)

    @Method
    def query(self, **given: Unpack[Query]) -> "Call[NodeReply[QueryPage]]":
        """One page of the records that a filter lets through."""
        return call_of("MEMORY.QUERY", given, read_reply)

    @Method
    def search(self, **given: Unpack[Search]) -> "Call[NodeReply[tuple[MemorySearchResult, ...]]]":
        """The records that fit a query, best first."""
        return call_of("MEMORY.SEARCH", given, read_reply)

    @Method
    def write(self, **given: Unpack[Write]) -> "Call[NodeReply[tuple[MemoryItem, ...]]]":
        """New records of drafts."""
        return call_of("MEMORY.WRITE", given, read_reply)

    @Method
    def update(self, **given: Unpack[Update]) -> "Call[NodeReply[tuple[MemoryItem, ...]]]":
        """Records with another content or other metadata."""
        return call_of("MEMORY.UPDATE", given, read_reply)

    @Method
    def delete(self, **given: Unpack[Delete]) -> "Call[NodeReply[DeleteOutput]]":
        """Records by their ids."""
        return call_of("MEMORY.DELETE", given, read_reply)


class RetrievalMethods(Domain[C]):
    """RETRIEVAL: searches of registered targets."""

    @Method
    def search(self, **given: Unpack[Retrieve]) -> "Call[NodeReply[RetrievalOutput]]":
        """What a target finds."""
        return call_of("RETRIEVAL.SEARCH", given, read_reply)
