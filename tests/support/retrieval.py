"""Backends and embedders of RETRIEVAL for tests."""

from collections.abc import Sequence
from string import ascii_lowercase
from threading import Event

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import NodeResult
from ditto_tasks.retrieval import RetrievalNodes, RetrievalProvider, RetrievalRequest, Target, TargetRegistry

DEADLINE_S = 10


class Backend:
    """Answers or raises what it is told, to text, vectors and contents alike; keeps what it was asked."""

    def __init__(self, answer: object, *, wait: bool = False) -> None:
        self.answer = answer
        self.asked: list[tuple[object, RetrievalRequest]] = []
        self.ended = False
        self.releases: Backend | None = None
        self._go = Event()
        if not wait:
            self._go.set()

    def search_text(self, text: str, request: RetrievalRequest) -> object:
        self.asked.append((text, request))
        if self.releases is not None:
            self.releases._go.set()
        if not self._go.wait(DEADLINE_S):
            raise TimeoutError
        self.ended = True
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    search_vector = search_content = search_text


class Letters:
    """Embeds a text by how often each letter is in it, or gives the vectors that it is told."""

    def __init__(self, vectors: object = "own") -> None:
        self.vectors = vectors
        self.asked: list[list[JsonValue]] = []

    @staticmethod
    def of(content: JsonValue) -> list[float]:
        """The vector of a text."""
        return [float(str(content).count(letter)) for letter in ascii_lowercase]

    def embed(self, contents: Sequence[JsonValue], _: CancelToken) -> object:
        self.asked.append(list(contents))
        return [self.of(content) for content in contents] if self.vectors == "own" else self.vectors


def search(
    provider: RetrievalProvider, content: JsonValue, *, token: CancelToken | None = None, **wire: object
) -> NodeResult:
    """Search with one provider as strategy "s" of target "t"."""
    nodes = RetrievalNodes(TargetRegistry({"t": Target("s", {"s": provider})}))
    return nodes.search({"query": {"content": content}, "target": {"name": "t"}, **wire}, token=token)


def candidates(result: NodeResult) -> list[dict[str, JsonValue]]:
    """The candidates of a result that must be a success."""
    assert result.status == "success", result
    return result.output["candidates"]
