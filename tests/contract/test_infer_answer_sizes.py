"""Providers over HTTP, all three kinds alike: what floods, is compressed or redirects is cut and typed."""

import gzip
import json
from collections.abc import Callable, Iterator

import pytest
from support.provider_server import ProviderServer, Reply, as_events, chat_chunk, message_events

from ditto_tasks.bounded_http import MAX_ANSWER_BYTES
from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.anthropic import AnthropicProvider
from ditto_tasks.infer.providers.google import GoogleProvider
from ditto_tasks.infer.providers.openai_compatible import OpenAiCompatibleProvider
from ditto_tasks.models import NodeResult

HELLO = {"messages": [{"role": "user", "content": "hi"}]}
MIB = b"x" * 2**20
FLOOD = 200  # MiB that the server would send
LONG = "x" * 2**16
OF_KIND: dict[str, Callable[..., object]] = {
    "openai": OpenAiCompatibleProvider,
    "anthropic": AnthropicProvider,
    "google": GoogleProvider,
}


def gemini(text: str) -> dict[str, object]:
    return {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}


EVENTS: dict[str, list[object]] = {
    "openai": [chat_chunk({"content": LONG})],
    "anthropic": message_events({"type": "text_delta", "text": LONG})[:4],
    "google": [gemini(LONG)],
}


@pytest.fixture
def provider_server() -> Iterator[ProviderServer]:
    with ProviderServer(Reply()) as running:
        yield running


@pytest.fixture(params=OF_KIND)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def nodes(provider_server: ProviderServer, kind: str) -> Iterator[InferNodes]:
    provider = OF_KIND[kind](base_url=provider_server.url, api_key="canary-key", model="m")
    opened = InferNodes({"main": provider})  # type: ignore[dict-item]  # each of them is a provider
    yield opened
    opened.close()


def code(result: NodeResult) -> tuple[str, str]:
    assert result.error is not None, result
    return result.status, result.error.code


def test_an_endless_answer_is_cut(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A body that goes on is left at the bound, and its connection is closed."""
    provider_server.then(Reply((b'{"a": "', *[MIB] * FLOOD)))
    assert code(nodes.sample(HELLO)) == ("failed", "INVALID_MODEL_OUTPUT")
    assert provider_server.client_closed.wait(10)


def test_an_endless_stream_is_cut(nodes: InferNodes, provider_server: ProviderServer, kind: str) -> None:
    """Streamed events count together; what was heard before the bound stays heard."""
    *first, last = EVENTS[kind]
    provider_server.then(as_events([*first, *[last] * (2 * MAX_ANSWER_BYTES // len(LONG))], done=False))
    heard: list[object] = []
    assert code(nodes.sample(HELLO, call=InferCall(emit=heard.append))) == ("failed", "INVALID_MODEL_OUTPUT")
    assert 100 < len(heard) < 140
    assert provider_server.client_closed.wait(10)


def test_an_endless_refusal_is_cut(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """An error's body is read a little way, and its status still says what happened."""
    provider_server.then(Reply((b'{"error": "', *[MIB] * FLOOD), status=400))
    result = nodes.sample(HELLO)
    assert code(result) == ("failed", "PROVIDER_HTTP_ERROR")
    assert "400" in str(result.error)
    assert provider_server.client_closed.wait(10)


def test_a_compressed_answer_is_refused(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Nobody asks for compression, and what comes compressed all the same is not unfolded."""
    bomb = gzip.compress(json.dumps({"a": "x" * 10**7}).encode())
    provider_server.then(Reply((bomb,), headers={"Content-Encoding": "gzip"}))
    assert code(nodes.sample(HELLO)) == ("failed", "INVALID_MODEL_OUTPUT")
    assert provider_server.requests[0].headers["accept-encoding"] == "identity"


def test_a_redirect_is_not_followed(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """The credential goes to the configured place only."""
    with ProviderServer(Reply()) as other:
        provider_server.then(Reply(status=307, headers={"Location": f"{other.url}/elsewhere"}))
        assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")
        assert other.requests == []
