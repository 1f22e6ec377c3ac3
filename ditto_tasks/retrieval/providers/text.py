"""Search by text."""

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import RetrievalError
from ditto_tasks.retrieval.answers import checked_candidates
from ditto_tasks.retrieval.base import TextBackend
from ditto_tasks.retrieval.models import Found, RetrievalRequest


class TextProvider:
    """Gives nonempty text to a backend, and refuses every other query."""

    def __init__(self, backend: TextBackend) -> None:
        self._backend = backend

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        content = request.query.content
        if not isinstance(content, str) or not content.strip():
            raise RetrievalError("RETRIEVAL_INVALID_INPUT", "/query/content: must be nonempty text")
        return Found(checked_candidates(self._backend.search_text(content, request), request.limit))
