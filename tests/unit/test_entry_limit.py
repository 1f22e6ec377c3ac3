"""The cap on entry calls of MEMORY and RETRIEVAL."""

from collections.abc import Callable, Sequence

import pytest

from ditto_tasks.memory import MemoryItem, MemoryNodes
from ditto_tasks.models import CancelToken, NodeResult
from ditto_tasks.retrieval import Found, RetrievalNodes, Target, TargetRegistry
from ditto_tasks.retrieval.models import RetrievalRequest

Run = Callable[[CancelToken], NodeResult]


class Impatient(CancelToken):
    """Is cancelled by the third question: a call that need not wait asks less often."""

    asked = 0

    def raise_if_cancelled(self) -> None:
        self.asked += 1
        if self.asked == 3:
            self.cancel()
        super().raise_if_cancelled()


class Nested:
    """Store and provider which, while they answer the first call, see a second one through to its end."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.second: NodeResult | None = None
        self.answered = 0

    def _answer(self) -> None:
        self.answered += 1
        if self.run is not None and self.second is None and self.answered == 1:
            self.second = self.run(Impatient())

    def get(self, *, ids: Sequence[str], keys: Sequence[str]) -> list[MemoryItem]:
        self._answer()
        return []

    def search(self, request: RetrievalRequest, token: CancelToken) -> Found:
        self._answer()
        return Found(())


def memory(backend: Nested, concurrency: int) -> Run:
    nodes = MemoryNodes(backend, concurrency=concurrency)  # type: ignore[arg-type]  # only GET is called
    return lambda token: nodes.execute("MEMORY.GET", {"ids": ["1"]}, token=token)


def retrieval(backend: Nested, concurrency: int) -> Run:
    registry = TargetRegistry({"t": Target("s", {"s": backend})})
    nodes = RetrievalNodes(registry, concurrency=concurrency)
    return lambda token: nodes.search({"query": {"content": "x"}, "target": {"name": "t"}}, token=token)


@pytest.mark.parametrize("domain", [memory, retrieval])
@pytest.mark.parametrize(("concurrency", "status", "answered"), [(1, "cancelled", 1), (2, "success", 2)])
def test_a_call_over_the_cap_waits_until_it_is_cancelled(
    domain: Callable[[Nested, int], Run], concurrency: int, status: str, answered: int
) -> None:
    """While one of one runs, a second does not begin and ends by its cancel; of two, both run."""
    backend = Nested()
    backend.run = domain(backend, concurrency)
    assert backend.run(CancelToken()).status == "success"
    assert backend.second is not None
    assert (backend.second.status, backend.answered) == (status, answered)
