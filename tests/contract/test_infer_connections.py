"""Providers over HTTP, all three kinds alike: slow, cut, busy and absent services; cancels and deadlines."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer

import pytest
from support.provider_server import (
    CUT_S,
    DRIPPING,
    ProviderServer,
    Reply,
    as_events,
    as_json,
    chat_answer,
    chat_chunk,
    hang,
    message_answer,
    message_events,
)
from support.proxies import TlsProxy
from support.servers import make_certificate

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.anthropic import AnthropicProvider
from ditto_tasks.infer.providers.google import GoogleProvider
from ditto_tasks.infer.providers.openai_compatible import OpenAiCompatibleProvider
from ditto_tasks.models import CancelToken, NodeResult, to_wire

HELLO = {"messages": [{"role": "user", "content": "hi"}]}
OF_KIND: dict[str, Callable[..., object]] = {
    "openai": OpenAiCompatibleProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
}


def gemini(text: str, finish: str | None = "STOP") -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": [{"text": text}]}}
    return {"candidates": [candidate if finish is None else {**candidate, "finishReason": finish}]}


ANSWERS: dict[str, Reply] = {
    "openai": chat_answer("hello"),
    "anthropic": message_answer({"type": "text", "text": "hello"}),
    "google": as_json(gemini("hello")),
}
BEGUN: dict[str, list[object]] = {  # a stream that has said "hello" and not ended
    "openai": [chat_chunk({"content": "hello"})],
    "anthropic": list(message_events({"type": "text_delta", "text": "hello"})[:4]),
    "google": [gemini("hello", finish=None)],
}


@pytest.fixture(params=OF_KIND)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider_server(kind: str) -> Iterator[ProviderServer]:
    with ProviderServer(ANSWERS[kind]) as running:
        yield running


@pytest.fixture
def nodes(provider_server: ProviderServer, kind: str) -> Iterator[InferNodes]:
    opened = open_nodes(kind, provider_server.url)
    yield opened
    opened.close()


def open_nodes(kind: str, url: str) -> InferNodes:
    provider = OF_KIND[kind](base_url=url, api_key="canary-key", model="m")
    return InferNodes({"main": provider})  # type: ignore[dict-item]  # each of them is a provider


def code(result: NodeResult) -> tuple[str, str]:
    assert result.error is not None, result
    assert "canary" not in str(result)
    return result.status, result.error.code


def said(result: NodeResult) -> object:
    assert result.status == "success", result
    wire = to_wire(result)
    assert isinstance(wire, dict)
    return wire["output"]


def test_an_answer_without_usage_has_none(nodes: InferNodes) -> None:
    """What the provider did not count is not invented."""
    sample = said(nodes.sample(HELLO))
    assert sample == {"message": {"role": "assistant", "content": "hello"}, "finishReason": "stop"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_dripping_body_does_not_extend_the_timeout(
    nodes: InferNodes, provider_server: ProviderServer, stream: bool
) -> None:
    """A body that comes byte by byte is cut at the same deadline as one that does not come."""
    provider_server.then(DRIPPING)
    call = InferCall(timeout_ms=300, emit=(lambda _: None) if stream else None)
    assert code(nodes.sample(HELLO, call=call)) == ("timeout", "TIMEOUT")
    assert provider_server.client_closed.wait(CUT_S)


def test_a_cancel_closes_the_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """The call ends as cancelled, and the server sees the connection closed."""
    provider_server.then(hang(b"{"))
    token = CancelToken()
    Timer(0.2, token.cancel).start()
    assert code(nodes.sample(HELLO, call=InferCall(token=token))) == ("cancelled", "CANCELLED")
    assert provider_server.client_closed.wait(5)


def test_a_cancel_closes_a_stream(nodes: InferNodes, provider_server: ProviderServer, kind: str) -> None:
    """Also one that has begun to speak; what was said was heard, and there is one result."""
    provider_server.then(as_events(BEGUN[kind], then="hang"))
    token, told = CancelToken(), list[dict[str, object]]()

    def listen(event: dict[str, object]) -> None:
        told.append(event)
        if event["type"] == "text_delta":
            token.cancel()

    result = nodes.sample(HELLO, call=InferCall(token=token, emit=listen))
    assert code(result) == ("cancelled", "CANCELLED")
    assert [event["type"] for event in told] == ["start", "text_delta", "result"]
    assert provider_server.client_closed.wait(5)


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_connection(
    nodes: InferNodes, provider_server: ProviderServer, kind: str, stream: bool
) -> None:
    """An answer that breaks off is a failed result, asked for once."""
    broken = as_events(BEGUN[kind], then="cut") if stream else Reply((b'{"a"',), then="cut")
    provider_server.then(broken)
    result = nodes.sample(HELLO, call=InferCall(emit=(lambda _: None) if stream else None))
    assert code(result) == ("failed", "PROVIDER_HTTP_ERROR")
    assert len(provider_server.requests) == 1


def test_nobody_listens(kind: str) -> None:
    """A service that is not there is a failed result."""
    with ProviderServer(ANSWERS[kind]) as gone:
        url = gone.url
    nodes = open_nodes(kind, url)
    assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")
    nodes.close()


def test_a_service_that_nobody_vouches_for(
    provider_server: ProviderServer, kind: str, tmp_path: Path
) -> None:
    """With an unknown certificate it is a failed result, and the service gets neither key nor question."""
    certificate, key = make_certificate(tmp_path)
    port = int(provider_server.url.rpartition(":")[2])

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", port))

    with TlsProxy(connect, certificate=certificate, key=key) as proxy:
        nodes = open_nodes(kind, f"https://127.0.0.1:{proxy.port}")
        assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")
        nodes.close()
    assert provider_server.requests == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_service_is_asked_once(
    nodes: InferNodes, provider_server: ProviderServer, kind: str, status: int
) -> None:
    """By default nothing is repeated, whatever the status and the service's wish."""
    provider_server.then(as_json({}, status=status, retry_after="0"), ANSWERS[kind])
    assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")
    assert len(provider_server.requests) == 1


def test_a_retry_waits_as_it_was_told(nodes: InferNodes, provider_server: ProviderServer, kind: str) -> None:
    """With `retries` a busy service is asked again, no sooner than its retry-after says."""
    provider_server.then(as_json({}, status=429, retry_after="1"), ANSWERS[kind])
    begun_s = time.monotonic()
    assert nodes.sample(HELLO, call=InferCall(retries=1)).status == "success"
    assert time.monotonic() - begun_s >= 1
    assert len(provider_server.requests) == 2


def test_a_retry_after_a_cut(nodes: InferNodes, provider_server: ProviderServer, kind: str) -> None:
    """A connection that broke may hold the next time."""
    provider_server.then(Reply((b'{"a"',), then="cut"), ANSWERS[kind])
    assert nodes.sample(HELLO, call=InferCall(retries=1)).status == "success"
    assert len(provider_server.requests) == 2


@pytest.mark.parametrize("wish", ["inf", "nan", "1e300", "-1", "soon"])
def test_a_retry_after_that_is_no_time(nodes: InferNodes, provider_server: ProviderServer, wish: str) -> None:
    """A busy service that wishes nonsense is a busy service."""
    provider_server.then(as_json({}, status=429, retry_after=wish))
    assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")


def test_retries_end(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A service that stays busy is asked once and as many times more as was allowed."""
    provider_server.then(as_json({}, status=503, retry_after="0"))
    assert code(nodes.sample(HELLO, call=InferCall(retries=2))) == ("failed", "PROVIDER_HTTP_ERROR")
    assert len(provider_server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_a_refusal_is_final(
    nodes: InferNodes, provider_server: ProviderServer, kind: str, status: int
) -> None:
    """What a repeat can't cure is not repeated, and the service's own text is not shown."""
    refusal = as_json({"error": {"message": "canary-text", "code": status}}, status=status)
    provider_server.then(refusal, ANSWERS[kind])
    result = nodes.sample(HELLO, call=InferCall(retries=3))
    assert code(result) == ("failed", "PROVIDER_HTTP_ERROR")
    assert str(status) in str(result.error)
    assert len(provider_server.requests) == 1
