"""The MEMORY nodes in process; each returns a NodeResult and raises nothing for a node's own failure."""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from ditto_tasks.cancellation import CancelToken, checkpoint, public_reason, working_for
from ditto_tasks.canonical import canonical_text
from ditto_tasks.entry_limit import EntryLimit
from ditto_tasks.errors import DittoError, MemoryError, ending_of
from ditto_tasks.json_values import FrozenDict, FrozenList, JsonValue
from ditto_tasks.memory import answers
from ditto_tasks.memory.base import MemorySearchProvider, MemoryStore, Recalling
from ditto_tasks.memory.models import (
    DeleteInput,
    DeleteOutput,
    GetInput,
    MemoryDraft,
    MemoryItem,
    Query,
    QueryInput,
    Search,
    SearchInput,
    UpdateInput,
    WriteInput,
    WriteOperation,
)
from ditto_tasks.models import NodeError, NodeInput, NodeResult, WireModel, from_wire, to_wire

WRITE: Final = "MEMORY.WRITE"
DEFAULT_QUERY_LIMIT: Final = 100
DEFAULT_SEARCH_LIMIT: Final = 10
MAX_LIMIT: Final = 10_000

InputModel = TypeVar("InputModel", bound=WireModel)

_log = logging.getLogger(__name__)
_NO_OPTIONS: Final = FrozenDict()


class MemoryNodes:
    """Gets, queries, searches, writes, updates and deletes through the two ports of MEMORY.

    Each method takes the wire input or its model, and returns a NodeResult whose output is the wire form;
    docs/tasks.md lists inputs, outputs and codes. Without `search` the store searches, if it can. The limits
    are records where a request names no limit; `concurrency` is how many calls run at a time.
    """

    def __init__(
        self,
        store: MemoryStore,
        *,
        search: MemorySearchProvider | None = None,
        query_limit: int = DEFAULT_QUERY_LIMIT,
        search_limit: int = DEFAULT_SEARCH_LIMIT,
        concurrency: int | None = None,
    ) -> None:
        self.store = store
        own_search = store if isinstance(store, MemorySearchProvider) else None
        self._search_provider = own_search if search is None else search
        self._query_limit = _checked_limit("query_limit", query_limit)
        self._search_limit = _checked_limit("search_limit", search_limit)
        self._entries = EntryLimit(concurrency)
        self._handlers: Mapping[str, Callable[[NodeInput, str | None], object]] = MappingProxyType(
            {
                "MEMORY.GET": self._get,
                "MEMORY.QUERY": self._query,
                "MEMORY.SEARCH": self._search,
                WRITE: self._write,
                "MEMORY.UPDATE": self._update,
                "MEMORY.DELETE": self._delete,
            }
        )

    def get(self, given: NodeInput, *, execution_id: str | None = None) -> NodeResult:
        """MEMORY.GET: the records of ``ids``, then of ``keys``; missing ones are left out."""
        return self.execute("MEMORY.GET", given, execution_id=execution_id)

    def query(self, given: NodeInput, *, execution_id: str | None = None) -> NodeResult:
        """MEMORY.QUERY: one page of the records that pass a filter."""
        return self.execute("MEMORY.QUERY", given, execution_id=execution_id)

    def search(self, given: NodeInput, *, execution_id: str | None = None) -> NodeResult:
        """MEMORY.SEARCH: the records nearest to a query."""
        return self.execute("MEMORY.SEARCH", given, execution_id=execution_id)

    def write(
        self, given: NodeInput, *, execution_id: str | None = None, operation_id: str | None = None
    ) -> NodeResult:
        """MEMORY.WRITE: all drafts or none, once per key and per operation."""
        return self.execute(WRITE, given, execution_id=execution_id, operation_id=operation_id)

    def update(self, given: NodeInput, *, execution_id: str | None = None) -> NodeResult:
        """MEMORY.UPDATE: all patches or none."""
        return self.execute("MEMORY.UPDATE", given, execution_id=execution_id)

    def delete(self, given: NodeInput, *, execution_id: str | None = None) -> NodeResult:
        """MEMORY.DELETE: which of the ids this call removed."""
        return self.execute("MEMORY.DELETE", given, execution_id=execution_id)

    def execute(
        self,
        node: str,
        given: NodeInput,
        *,
        execution_id: str | None = None,
        operation_id: str | None = None,
        token: CancelToken | None = None,
    ) -> NodeResult:
        """Run a node by its type; ``operation_id`` makes a WRITE safe to repeat."""
        run_id = execution_id or uuid.uuid4().hex
        try:
            output = self._output(node, given, operation_id, token)
        except Exception as error:  # noqa: BLE001 - the node's boundary: a failure is a value
            return _failure(run_id, node, public_reason(error, token))
        return _success(run_id, node, output)

    def ping(self) -> None:
        """Ask the store, where it can be asked; raises what it raises."""
        ping = getattr(self.store, "ping", None)
        if ping is not None:
            ping()

    def close(self) -> None:
        """Close the store, where it can be closed."""
        close = getattr(self.store, "close", None)
        if close is not None:
            close()

    def _output(
        self, node: str, given: NodeInput, operation_id: str | None, token: CancelToken | None
    ) -> JsonValue:
        """The node's output; a WRITE that is to stop gives what it had written before, if it had."""
        try:
            with self._entries.entered(partial(checkpoint, token)), working_for(token):
                checkpoint(token)
                return to_wire(self._handler(node)(given, operation_id))
        except Exception as error:
            if node != WRITE or operation_id is None or token is None or error is not token.reason:
                raise
            written = self._written(given, operation_id)
            if written is None:
                raise
            return to_wire(written)

    def _written(self, given: NodeInput, operation_id: str) -> Sequence[MemoryItem] | None:
        drafts = _parse(WriteInput, given).memories
        if not drafts or not isinstance(self.store, Recalling):
            return None
        written = self.store.recall(drafts, operation=_operation(operation_id, drafts))
        return None if written is None else answers.checked_written(written, drafts)

    def _handler(self, node: str) -> Callable[[NodeInput, str | None], object]:
        if node not in self._handlers:
            raise MemoryError("UNKNOWN_NODE", "no such MEMORY node")
        return self._handlers[node]

    def _get(self, given: NodeInput, _: str | None) -> object:
        asked = _parse(GetInput, given)
        if not asked.ids and not asked.keys:
            return ()
        found = self.store.get(ids=_distinct(asked.ids or ()), keys=_distinct(asked.keys or ()))
        return answers.checked_get(found, asked)

    def _query(self, given: NodeInput, _: str | None) -> object:
        asked = _parse(QueryInput, given)
        query = Query(asked.limit or self._query_limit, asked.filter, asked.cursor, asked.order_by or ())
        return answers.checked_page(self.store.query(query), query)

    def _search(self, given: NodeInput, _: str | None) -> object:
        asked = _parse(SearchInput, given)
        if self._search_provider is None:
            raise MemoryError("SEARCH_UNAVAILABLE", "no search is configured for this store")
        limit = asked.limit or self._search_limit
        search = Search(asked.query, limit, asked.strategy, asked.filter, asked.options or _NO_OPTIONS)
        return answers.checked_results(self._search_provider.search(search), limit)

    def _write(self, given: NodeInput, operation_id: str | None) -> object:
        drafts = _parse(WriteInput, given).memories
        if not drafts:
            return ()
        operation = None if operation_id is None else _operation(operation_id, drafts)
        return answers.checked_written(self.store.write(drafts, operation=operation), drafts)

    def _update(self, given: NodeInput, _: str | None) -> object:
        patches = _parse(UpdateInput, given).memories
        if not patches:
            return ()
        return answers.checked_updated(self.store.update(patches), patches)

    def _delete(self, given: NodeInput, _: str | None) -> object:
        ids = _distinct(_parse(DeleteInput, given).ids)
        deleted = answers.checked_deleted(self.store.delete(ids), ids) if ids else ()
        return DeleteOutput(deleted=deleted)


def _parse(model: type[InputModel], given: NodeInput) -> InputModel:
    return from_wire(model, given, error=MemoryError)


def _operation(operation_id: str, drafts: Sequence[MemoryDraft]) -> WriteOperation:
    canonical = canonical_text([draft.wire_form() for draft in drafts])
    return WriteOperation(operation_id, hashlib.sha256(canonical.encode("utf-8")).hexdigest())


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _checked_limit(name: str, limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise MemoryError.invalid_input(f"/{name}", f"must be an integer from 1 to {MAX_LIMIT}")
    return limit


def _success(run_id: str, node: str, output: JsonValue) -> NodeResult:
    """Assembled: the content in it is checked and frozen already, and only what wraps it is new."""
    frozen = _frozen_envelope(output)
    return NodeResult.assemble({"execution_id": run_id, "node": node, "status": "success", "output": frozen})


def _frozen_envelope(value: JsonValue) -> JsonValue:
    """Frozen values are left as they are, so this goes down only as far as the envelope reaches."""
    if type(value) is dict:
        return FrozenDict({key: _frozen_envelope(child) for key, child in value.items()})
    if type(value) is list:
        return FrozenList([_frozen_envelope(child) for child in value])
    return value


def _failure(run_id: str, node: str, error: Exception) -> NodeResult:
    public = _public(node, error)
    status = ending_of(public.code)
    return NodeResult.assemble({"execution_id": run_id, "node": node, "status": status, "error": public})


def _public(node: str, error: Exception) -> NodeError:
    """What may be told: the text of an error that we did not write can hold anything."""
    if isinstance(error, DittoError):
        return NodeError(code=error.code, message=error.message)
    _log.error("%s failed with %s", node, type(error).__name__)
    return NodeError(code="MEMORY_BACKEND_ERROR", message="the memory backend failed")
