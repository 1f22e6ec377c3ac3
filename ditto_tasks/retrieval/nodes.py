"""RETRIEVAL.SEARCH in process; it returns a NodeResult and raises nothing for its own failure."""

import logging
import uuid
from typing import Final

from ditto_tasks.cancellation import CancelToken, public_reason
from ditto_tasks.entry_limit import EntryLimit
from ditto_tasks.errors import Cancelled, DittoError, RetrievalError, ending_of
from ditto_tasks.json_values import FrozenDict, freeze
from ditto_tasks.models import NodeError, NodeInput, NodeResult, from_wire
from ditto_tasks.retrieval.answers import checked_found
from ditto_tasks.retrieval.models import RetrievalInput, RetrievalOutput, RetrievalRequest
from ditto_tasks.retrieval.registry import TargetRegistry

SEARCH: Final = "RETRIEVAL.SEARCH"
DEFAULT_LIMIT: Final = 10
ENVELOPE_DEPTH: Final = 8  # levels that a result wraps around a candidate's content

_log = logging.getLogger(__name__)
_NO_OPTIONS: Final = FrozenDict()


class RetrievalNodes:
    """Searches the targets of a registry.

    A call takes the wire input or its model, and returns a NodeResult whose output is the wire form;
    `search_limit` is how many candidates are wanted where the request names no limit.
    """

    def __init__(
        self, registry: TargetRegistry, *, search_limit: int = DEFAULT_LIMIT, concurrency: int | None = None
    ) -> None:
        self._registry = registry
        self._search_limit = search_limit
        self._entries = EntryLimit(concurrency)

    def search(
        self, given: NodeInput, *, execution_id: str | None = None, token: CancelToken | None = None
    ) -> NodeResult:
        """RETRIEVAL.SEARCH: candidates of one target by one strategy, in the provider's order."""
        return self.execute(SEARCH, given, execution_id=execution_id, token=token)

    def execute(
        self,
        node: str,
        given: NodeInput,
        *,
        execution_id: str | None = None,
        token: CancelToken | None = None,
    ) -> NodeResult:
        """Run a node by its type."""
        run_id, token = execution_id or uuid.uuid4().hex, token or CancelToken()
        try:
            with self._entries.entered(token.raise_if_cancelled):
                output = self._run(node, given, token)
        except Exception as error:  # noqa: BLE001 - the node's boundary: a failure is a value
            return _failure(run_id, node, public_reason(error, token))
        frozen = freeze(output.wire_form(), max_depth=200 + ENVELOPE_DEPTH)
        return NodeResult.assemble(
            {"execution_id": run_id, "node": node, "status": "success", "output": frozen}
        )

    def _run(self, node: str, given: NodeInput, token: CancelToken) -> RetrievalOutput:
        if node != SEARCH:
            raise RetrievalError("UNKNOWN_NODE", "no such RETRIEVAL node")
        token.raise_if_cancelled()
        asked = _parse(given)
        strategy, provider = self._registry.provider(asked.target.name, asked.strategy)
        limit = asked.limit or self._search_limit
        request = RetrievalRequest(
            asked.query, asked.target, strategy, limit, asked.filter, asked.options or _NO_OPTIONS
        )
        found = checked_found(provider.search(request, token), limit)
        token.raise_if_cancelled()
        return RetrievalOutput(
            candidates=found.candidates, strategy=strategy, target=asked.target, metadata=found.metadata
        )


def _parse(given: NodeInput) -> RetrievalInput:
    try:
        return from_wire(RetrievalInput, given, error=RetrievalError)
    except RetrievalError as problem:
        raise RetrievalError("RETRIEVAL_INVALID_INPUT", problem.message, problem.details) from None


def _failure(run_id: str, node: str, error: Exception) -> NodeResult:
    public = _public(error)
    status = ending_of(public.code)
    return NodeResult.assemble({"execution_id": run_id, "node": node, "status": status, "error": public})


def _public(error: Exception) -> NodeError:
    """What may be told: the text of an error that we did not write can hold anything."""
    match error:
        case DittoError(code="TIMEOUT") | TimeoutError():
            return NodeError(code="RETRIEVAL_TIMEOUT", message="the search took too long")
        case Cancelled():
            return NodeError(code="RETRIEVAL_CANCELLED", message="the search was cancelled")
        case DittoError():
            return NodeError(code=error.code, message=error.message)
        case PermissionError():
            return NodeError(code="RETRIEVAL_PERMISSION_DENIED", message="the search is not permitted")
    _log.error("%s failed with %s", SEARCH, type(error).__name__)
    return NodeError(code="RETRIEVAL_BACKEND_ERROR", message="the retrieval backend failed")
