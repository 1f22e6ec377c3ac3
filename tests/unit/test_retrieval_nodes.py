"""RETRIEVAL.SEARCH: registry, providers, answers checked, codes."""

import threading

import pytest
from support.retrieval import Backend, Letters, candidates, search

from ditto_tasks.errors import Cancelled, DittoError, RetrievalError
from ditto_tasks.models import CancelToken
from ditto_tasks.retrieval import (
    Branch,
    Candidate,
    CosineReranker,
    Found,
    HybridProvider,
    NativeVectorProvider,
    Reranked,
    RerankProvider,
    RetrievalNodes,
    Target,
    TargetRegistry,
    TextProvider,
    VectorProvider,
)

SECRET = "hunter2-canary"


def test_candidates_keep_order_and_scores() -> None:
    """The result holds the provider's candidates as they are, the strategy that applied and the target."""
    found = [{"id": "b", "content": 1, "score": 0.1}, {"id": "a", "content": None}, {"id": "b", "content": 1}]
    result = search(TextProvider(Backend(found)), "text", target={"name": "t", "metadata": {"x": 1}})
    assert result.status == "success"
    target = {"name": "t", "metadata": {"x": 1}}
    assert result.output == {"candidates": found, "strategy": "s", "target": target}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"target": {"name": "other"}}, "RETRIEVAL_TARGET_NOT_FOUND"),
        ({"strategy": "other"}, "RETRIEVAL_STRATEGY_UNSUPPORTED"),
        ({"strategy": "rag"}, "RETRIEVAL_STRATEGY_UNSUPPORTED"),
        ({"target": {}}, "RETRIEVAL_INVALID_INPUT"),
        ({"limit": 0}, "RETRIEVAL_INVALID_INPUT"),
        ({"limit": 10_001}, "RETRIEVAL_INVALID_INPUT"),
        ({"more": 1}, "RETRIEVAL_INVALID_INPUT"),
        ({"query": "text"}, "RETRIEVAL_INVALID_INPUT"),
        ({"query": {"content": ""}}, "RETRIEVAL_INVALID_INPUT"),
        ({"query": {"content": [1]}}, "RETRIEVAL_INVALID_INPUT"),
    ],
)
def test_bad_requests(change: dict[str, object], code: str) -> None:
    """A bad request, target or strategy has its code, and the backend isn't asked."""
    backend = Backend([])
    registry = TargetRegistry({"t": Target("s", {"s": TextProvider(backend)})})
    result = RetrievalNodes(registry).search({"query": {"content": "x"}, "target": {"name": "t"}, **change})
    assert (result.status, result.error.code) == ("failed", code)
    assert backend.asked == []


def test_the_limit_is_ten_unless_configured() -> None:
    """A request's limit wins over the configured one, and that over ten."""
    backend = Backend([])
    registry = TargetRegistry({"t": Target("s", {"s": TextProvider(backend)})})
    asked = {"query": {"content": "x"}, "target": {"name": "t"}}
    RetrievalNodes(registry).search(asked)
    RetrievalNodes(registry, search_limit=7).search(asked)
    RetrievalNodes(registry, search_limit=7).search({**asked, "limit": 3})
    assert [request.limit for _, request in backend.asked] == [10, 7, 3]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"candidates": []},
        [{"id": "a"}],
        [{"content": 1, "score": float("nan")}],
        [{"content": 1, "score": "1"}],
        [{"content": 1, "extra": 1}],
        [{"content": 1}] * 11,
    ],
)
def test_wrong_answers_are_refused(answer: object) -> None:
    """An answer of the wrong shape, with a score that isn't finite, or over the limit, is refused."""
    assert search(TextProvider(Backend(answer)), "x").error.code == "RETRIEVAL_INVALID_BACKEND_OUTPUT"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RuntimeError(SECRET), "failed", "RETRIEVAL_BACKEND_ERROR"),
        (PermissionError(SECRET), "failed", "RETRIEVAL_PERMISSION_DENIED"),
        (TimeoutError(SECRET), "timeout", "RETRIEVAL_TIMEOUT"),
        (RetrievalError("RETRIEVAL_INVALID_EMBEDDING", "safe"), "failed", "RETRIEVAL_INVALID_EMBEDDING"),
    ],
)
def test_errors_of_backends(
    error: Exception, status: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each kind of error has its status and code, and a raw error's text is in no result and no log."""
    result = search(TextProvider(Backend(error)), "x")
    assert (result.status, result.error.code) == (status, code)
    assert SECRET not in result.model_dump_json() + caplog.text


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        (None, "cancelled", "RETRIEVAL_CANCELLED"),
        (Cancelled("TIMEOUT", "late"), "timeout", "RETRIEVAL_TIMEOUT"),
        (DittoError("TIMEOUT", "late"), "timeout", "RETRIEVAL_TIMEOUT"),
        (RuntimeError(SECRET), "cancelled", "RETRIEVAL_CANCELLED"),
    ],
)
def test_a_cancelled_search_asks_nothing(reason: Exception | None, status: str, code: str) -> None:
    """A cancelled call ends with its status and does not reach the backend."""
    token, backend = CancelToken(), Backend([])
    token.cancel(reason)
    result = search(TextProvider(backend), "x", token=token)
    assert (result.status, result.error.code) == (status, code)
    assert backend.asked == []


def test_registrations_are_checked() -> None:
    """A target needs a provider for its default strategy, and none may be called rag."""
    with pytest.raises(RetrievalError, match="RETRIEVAL_STRATEGY_UNSUPPORTED"):
        Target("missing", {"s": TextProvider(Backend([]))})
    with pytest.raises(RetrievalError, match="RETRIEVAL_STRATEGY_UNSUPPORTED"):
        Target("rag", {"rag": TextProvider(Backend([]))})


def test_numeric_queries_are_not_embedded() -> None:
    """A list of numbers goes straight to the backend; other content is embedded first, once."""
    backend, embedding = Backend([]), Letters()
    search(VectorProvider(backend, embedding), [0.5, 1])
    search(VectorProvider(backend, embedding), "ab")
    assert [list(vector) for vector, _ in backend.asked] == [[0.5, 1], Letters.of("ab")]
    assert embedding.asked == [["ab"]]


def test_native_embedding_is_the_backends() -> None:
    """With native embedding the backend gets other content than numbers as it is."""
    backend = Backend([])
    search(NativeVectorProvider(backend), [0.5])
    search(NativeVectorProvider(backend), "text")
    assert [asked for asked, _ in backend.asked] == [[0.5], "text"]


@pytest.mark.parametrize("vectors", [[], [[1.0], [2.0]], [[]], [["1"]], [[float("inf")]], [[True]], None])
def test_bad_embeddings_are_refused(vectors: object) -> None:
    """An embedding of the wrong count, or that isn't finite numbers, is RETRIEVAL_INVALID_EMBEDDING."""
    backend, embedding = Backend([]), Letters(vectors)
    result = search(VectorProvider(backend, embedding), "x")
    assert result.error.code == "RETRIEVAL_INVALID_EMBEDDING"
    assert backend.asked == []


def test_fusion_sums_weighted_reciprocal_ranks() -> None:
    """Hybrid scores are sum(weight / (60 + rank)); each branch's score, rank and weight are kept."""
    left = Backend([{"id": "a", "content": "A", "score": 9.0}, {"id": "b", "content": "B"}])
    right = Backend([{"id": "b", "content": "other"}, {"id": "c", "content": "C"}])
    branches = [Branch("left", TextProvider(left)), Branch("right", TextProvider(right), weight=2)]
    found = candidates(search(HybridProvider(branches), "x", limit=2))
    assert [each["id"] for each in found] == ["b", "c"]
    assert found[0]["content"] == "B"
    assert found[0]["score"] == pytest.approx(1 / 62 + 2 / 61)
    assert found[0]["metadata"]["fusion"] == {
        "left": {"rank": 2, "weight": 1.0},
        "right": {"rank": 1, "weight": 2.0},
    }
    assert left.asked[0][1].limit == 100


def test_fusion_identity_and_ties() -> None:
    """The same id of another source target is another candidate; ties keep the order first seen."""
    left = Backend([{"id": "a", "content": 1}, {"content": 2}])
    right = Backend([{"id": "a", "content": 3, "source": {"target": "elsewhere"}}, {"content": 4}])
    ref = Backend([{"content": 5, "source": {"ref": "a", "target": "t"}}])
    branches = [Branch(name, TextProvider(each)) for name, each in [("l", left), ("r", right), ("f", ref)]]
    found = candidates(search(HybridProvider(branches), "x"))
    assert [each["content"] for each in found] == [1, 3, 2, 4]


def test_branches_run_at_the_same_time_and_all_settle() -> None:
    """A branch that waits for the other one is no deadlock; a failure is told after all have ended."""
    waiting, failing = Backend([], wait=True), Backend(RuntimeError("x"))
    failing.releases = waiting
    branches = [Branch("waiting", TextProvider(waiting)), Branch("failing", TextProvider(failing))]
    result = search(HybridProvider(branches), "x")
    assert result.error.code == "RETRIEVAL_BACKEND_ERROR"
    assert waiting.ended


def test_a_cancel_does_not_wait_for_the_branches() -> None:
    """The call ends at once; the branches end at their own check points."""
    token, waiting = CancelToken(), Backend([], wait=True)
    threading.Timer(0.1, token.cancel).start()
    result = search(HybridProvider([Branch("waiting", TextProvider(waiting))]), "x", token=token)
    assert result.error.code == "RETRIEVAL_CANCELLED"
    assert not waiting.ended
    waiting._go.set()


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_weights_are_positive(weight: float) -> None:
    """A weight that isn't positive, no branch, or two of one name, is refused when the provider is made."""
    provider = TextProvider(Backend([]))
    for branches in ([Branch("a", provider, weight)], [], [Branch("a", provider)] * 2):
        with pytest.raises(RetrievalError):
            HybridProvider(branches)


class Scripted:
    """A reranker that answers what it is told."""

    def __init__(self, *places: object) -> None:
        self.places = list(places)

    def rerank(self, *_: object) -> object:
        return self.places


def test_reranking_reorders_a_wider_pool() -> None:
    """The pool is at least candidate_limit; the reranker's order and scores are the result's."""
    backend = Backend([{"id": name, "content": name, "score": 1.0} for name in "abc"])
    reranker = Scripted(Reranked(2, 0.9), Reranked(0), Reranked(1, 0.1))
    provider = RerankProvider(TextProvider(backend), reranker, candidate_limit=50)
    found = candidates(search(provider, "x", limit=2))
    assert found == [{"id": "c", "content": "c", "score": 0.9}, {"id": "a", "content": "a", "score": 1.0}]
    assert backend.asked[0][1].limit == 50


@pytest.mark.parametrize(
    "places",
    [
        [Reranked(3)],
        [Reranked(-1)],
        [Reranked(True)],
        [Reranked(0), Reranked(0)],
        [0],
        [Reranked(0, float("nan"))],
    ],
)
def test_bad_rerankings_are_refused(places: list[object]) -> None:
    """An index out of range or given twice, and a score that isn't finite, are refused."""
    backend = Backend([{"content": 1}, {"content": 2}])
    result = search(RerankProvider(TextProvider(backend), Scripted(*places)), "x")
    assert result.error.code == "RETRIEVAL_INVALID_BACKEND_OUTPUT"


def test_cosine_reranking() -> None:
    """The cosine reranker puts what resembles the query first, in one call to the embedder."""
    embedding = Letters()
    backend = Backend([{"content": word} for word in ("zzz", "abd", "abc")])
    provider = RerankProvider(TextProvider(backend), CosineReranker(embedding))
    found = candidates(search(provider, "abc"))
    assert [each["content"] for each in found] == ["abc", "abd", "zzz"]
    assert found[0]["score"] == pytest.approx(1)
    assert len(embedding.asked) == 1


def test_a_provider_may_add_metadata() -> None:
    """What a provider says about the search stands beside the candidates."""

    class Telling:
        def search(self, *_: object) -> Found:
            return Found((Candidate(content="x"),), {"took": 1})

    assert search(Telling(), "x").output["metadata"] == {"took": 1}
