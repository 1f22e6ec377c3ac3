"""Several strategies at once, their rankings fused."""

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.errors import RetrievalError
from ditto_tasks.retrieval.answers import checked_found
from ditto_tasks.retrieval.base import RetrievalProvider
from ditto_tasks.retrieval.fusion import Ranking, fuse
from ditto_tasks.retrieval.models import Found, RetrievalRequest

RRF_K: Final = 60
CANDIDATE_LIMIT: Final = 100
CANCEL_POLL_S: Final = 0.05  # how late a cancel is noticed


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the strategies that are fused; ``weight`` is positive."""

    name: str
    provider: RetrievalProvider
    weight: float = 1.0


class HybridProvider:
    """Runs all branches at the same time and fuses their ranks.

    Each branch is asked for ``candidate_limit`` candidates, or for the request's limit where that is more. A
    branch that fails makes the call fail, once all branches have ended.
    """

    def __init__(
        self, branches: Sequence[Branch], *, rrf_k: float = RRF_K, candidate_limit: int = CANDIDATE_LIMIT
    ) -> None:
        names = [branch.name for branch in branches]
        if not names or len(set(names)) != len(names):
            raise _refused("branches need names of their own, and there must be one")
        if not all(math.isfinite(branch.weight) and branch.weight > 0 for branch in branches):
            raise _refused("weights are positive")
        if not math.isfinite(rrf_k) or rrf_k <= 0:
            raise _refused("rrf_k is positive")
        self._branches = tuple(branches)
        self._rrf_k = rrf_k
        self._candidate_limit = candidate_limit

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        token.raise_if_cancelled()
        wider = replace(request, limit=max(request.limit, self._candidate_limit))
        pool = ThreadPoolExecutor(len(self._branches), thread_name_prefix="ditto-hybrid")
        try:
            running = [pool.submit(_run, branch, wider, token) for branch in self._branches]
            while wait(running, CANCEL_POLL_S).not_done:
                token.raise_if_cancelled()
        finally:
            pool.shutdown(wait=False)  # after a cancel the branches end at their own check points
        rankings = _results(running)
        token.raise_if_cancelled()
        fused = fuse(rankings, rrf_k=self._rrf_k, target=request.target.name, limit=request.limit)
        return Found(fused)


def _run(branch: Branch, request: RetrievalRequest, token: CancelToken) -> Ranking:
    found = checked_found(branch.provider.search(request, token), request.limit)
    return Ranking(branch.name, branch.weight, found.candidates)


def _results(ended: Sequence[Future[Ranking]]) -> list[Ranking]:
    """All rankings, or the failure of the first branch that failed."""
    return [future.result() for future in ended]


def _refused(reason: str) -> RetrievalError:
    return RetrievalError("RETRIEVAL_INVALID_INPUT", f"hybrid: {reason}")
