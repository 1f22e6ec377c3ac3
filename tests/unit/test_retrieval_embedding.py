"""Embeddings over HTTP, against a real server that answers well and badly."""

import threading

import pytest
from support.provider_server import CUT_S, DRIPPING, ProviderServer, Reply, as_json, hang

from ditto_tasks.errors import Cancelled, RetrievalError
from ditto_tasks.models import CancelToken
from ditto_tasks.retrieval import HttpEmbedding

KEY = "hunter2-canary"


def answer(*vectors: list[float], start: int = 0) -> Reply:
    """An answer with these vectors, the last one first."""
    data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors, start)]
    return as_json({"data": data[::-1]})


def test_order_comes_from_the_index() -> None:
    """Vectors come in the order of the contents, and what isn't text is embedded as its JSON."""
    with ProviderServer(answer([1.0, 0.0], [0.0, 1.0])) as server:
        embedding = HttpEmbedding(f"{server.url}/v1/", model="m", api_key=KEY, dimensions=2)
        assert embedding.embed(["a", {"b": 1}], CancelToken()) == [[1.0, 0.0], [0.0, 1.0]]
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "m",
        "input": ["a", '{"b":1}'],
        "encoding_format": "float",
        "dimensions": 2,
    }


def test_batches() -> None:
    """More contents than a batch are sent in batches of 64, and a cancelled call sends no more."""
    sizes = [64, 64, 2]
    replies = [answer(*[[float(number)] for number in range(size)]) for size in sizes]
    with ProviderServer(*replies) as server:
        embedding = HttpEmbedding(server.url, model="m")
        vectors = embedding.embed([str(number) for number in range(130)], CancelToken())
    assert [len(request.json["input"]) for request in server.requests] == sizes
    assert vectors == [[float(number)] for size in sizes for number in range(size)]


@pytest.mark.parametrize(
    "reply",
    [
        answer([1.0]),
        answer([1.0], [2.0], start=1),
        answer([1.0], [2.0, 3.0]),
        answer([1.0], []),
        as_json({"data": [{"index": 0, "embedding": [1.0]}] * 2}),
        as_json({"data": [{"index": n, "embedding": ["x"]} for n in range(2)]}),
        as_json({"data": {}}),
        as_json([]),
        Reply((b'{"data": [NaN]}',)),
        Reply((b"not json",)),
    ],
)
def test_bad_answers(reply: Reply) -> None:
    """Missing, doubled, uneven or impossible vectors are RETRIEVAL_INVALID_EMBEDDING."""
    with ProviderServer(reply) as server:
        embedding = HttpEmbedding(server.url, model="m")
        with pytest.raises(RetrievalError, match="RETRIEVAL_INVALID_EMBEDDING"):
            embedding.embed(["a", "b"], CancelToken())


def test_other_dimensions_than_configured_are_refused() -> None:
    """Vectors of other dimensions than configured are RETRIEVAL_INVALID_EMBEDDING."""
    with ProviderServer(answer([1.0, 2.0])) as server:
        embedding = HttpEmbedding(server.url, model="m", dimensions=3)
        with pytest.raises(RetrievalError, match="RETRIEVAL_INVALID_EMBEDDING"):
            embedding.embed(["a"], CancelToken())


@pytest.mark.parametrize(
    "reply",
    [
        as_json({"error": KEY}, status=401),
        as_json({"error": KEY}, status=503),
        Reply((), status=302, headers={"Location": "http://127.0.0.1:1/elsewhere"}),
    ],
)
def test_refusals_tell_the_status_only(reply: Reply) -> None:
    """An error status and a redirect, which is not followed, are errors without the answer's text."""
    with ProviderServer(reply) as server:
        embedding = HttpEmbedding(server.url, model="m", api_key=KEY)
        with pytest.raises(RetrievalError, match="RETRIEVAL_BACKEND_ERROR") as caught:
            embedding.embed(["a"], CancelToken())
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


def test_a_silent_service_is_a_timeout() -> None:
    """No answer within the time is a TimeoutError; an unreachable service is RETRIEVAL_BACKEND_ERROR."""
    with ProviderServer(hang()) as server:
        embedding = HttpEmbedding(server.url, model="m", timeout_ms=200)
        with pytest.raises(TimeoutError):
            embedding.embed(["a"], CancelToken())
    with pytest.raises(RetrievalError, match="RETRIEVAL_BACKEND_ERROR"):
        HttpEmbedding("http://127.0.0.1:1", model="m").embed(["a"], CancelToken())


def test_a_dripping_answer_does_not_extend_the_time() -> None:
    """The time is that of the whole request, and not of each byte."""
    with ProviderServer(DRIPPING) as server:
        embedding = HttpEmbedding(server.url, model="m", timeout_ms=300)
        with pytest.raises(TimeoutError):
            embedding.embed(["a"], CancelToken())
        assert server.client_closed.wait(CUT_S)


def test_a_flood_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer past its bound is RETRIEVAL_INVALID_EMBEDDING, and the rest of it is not read."""
    monkeypatch.setattr("ditto_tasks.retrieval.providers.http_embedding.MAX_ANSWER_BYTES", 2**20)
    with ProviderServer(Reply((b"x" * 2**20,) * 100)) as server:
        with pytest.raises(RetrievalError, match="RETRIEVAL_INVALID_EMBEDDING"):
            HttpEmbedding(server.url, model="m").embed(["a"], CancelToken())
        assert server.client_closed.wait(5)


@pytest.mark.parametrize("reply", [hang(), hang(b'{"data"')])
def test_a_cancel_closes_the_request(reply: Reply) -> None:
    """Whether the answer has begun or not, the call ends with its token's reason."""
    token = CancelToken()
    with ProviderServer(reply) as server:
        threading.Timer(0.2, token.cancel).start()
        with pytest.raises(Cancelled):
            HttpEmbedding(server.url, model="m").embed(["a"], token)
        assert server.client_closed.wait(5)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host", "host"])
def test_only_http(url: str) -> None:
    """A URL of another scheme is refused when the provider is made."""
    with pytest.raises(RetrievalError, match="RETRIEVAL_INVALID_INPUT"):
        HttpEmbedding(url, model="m")
