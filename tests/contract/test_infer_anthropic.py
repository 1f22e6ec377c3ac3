"""The Anthropic provider against a real HTTP server: golden requests, answers, failures."""

import logging
from collections.abc import Iterator

import pytest
from support.provider_server import (
    ProviderServer,
    Reply,
    as_events,
    as_json,
    hang,
    message_answer,
    message_events,
)

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.anthropic import AnthropicProvider
from ditto_tasks.models import NodeResult, to_wire

KEY = "canary-credential"
ACTION = {"name": "search", "description": "find", "inputSchema": {"type": "object"}, "targetNode": "X.Y"}
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = {"type": "text", "text": "hello"}


@pytest.fixture
def provider_server() -> Iterator[ProviderServer]:
    with ProviderServer(message_answer(TEXT)) as running:
        yield running


@pytest.fixture
def nodes(provider_server: ProviderServer) -> Iterator[InferNodes]:
    provider = AnthropicProvider(base_url=provider_server.url, api_key=KEY, model="m")
    opened = InferNodes({"main": provider})
    yield opened
    opened.close()


def output(result: NodeResult) -> dict[str, object]:
    assert result.status == "success", result
    wire = to_wire(result)
    assert isinstance(wire, dict)
    return wire["output"]


def code(result: NodeResult) -> tuple[str, str]:
    assert result.error is not None
    assert KEY not in result.error.message
    return result.status, result.error.code


def test_golden_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Every field of a request reaches the server in its Messages form, and nothing else does."""
    requests = [{"id": "1", "name": "search", "arguments": {"q": "é"}}]
    nodes.sample(
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": ["look", {"type": "image", "source": {}}]},
                {"role": "assistant", "content": "so", "metadata": {"actionRequests": requests}},
                {"role": "tool", "content": "found", "metadata": {"callId": "1"}},
                {"role": "tool", "content": "more", "metadata": {"callId": "2"}},
                {"role": "system", "content": "and kind"},
            ],
            "model": {"model": "big", "providerOptions": {"metadata": {"user_id": "u"}}},
            "generation": {"temperature": 0.5, "topP": 1, "topK": 4, "maxTokens": 9, "stop": ["END"]},
            "actions": [ACTION],
        }
    )
    (request,) = provider_server.requests
    assert request.path == "/v1/messages"
    assert "anthropic-version" in request.headers
    assert [name for name, value in request.headers.items() if KEY in value]
    assert request.json == {
        "model": "big",
        "max_tokens": 9,
        "system": "be brief\n\nand kind",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "so"},
                    {"type": "tool_use", "id": "1", "name": "search", "input": {"q": "é"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "1", "content": "found"},
                    {"type": "tool_result", "tool_use_id": "2", "content": "more"},
                ],
            },
        ],
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 4,
        "stop_sequences": ["END"],
        "tools": [{"name": "search", "description": "find", "input_schema": {"type": "object"}}],
        "metadata": {"user_id": "u"},
    }


def test_minimal_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A request without options has only what the format demands."""
    nodes.sample(HELLO)
    assert provider_server.requests[0].json == {"model": "m", "max_tokens": 4096, **HELLO}


def test_environment_is_not_read(monkeypatch: pytest.MonkeyPatch, provider_server: ProviderServer) -> None:
    """The client library's own environment variables bring no credential into a request."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "stray")
    nodes = InferNodes({"main": AnthropicProvider(base_url=provider_server.url, model="m")})
    nodes.sample(HELLO)
    nodes.close()
    assert not [value for value in provider_server.requests[0].headers.values() if "stray" in value]


def test_seed_is_refused(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A seed, which the format can't say, is refused and not dropped."""
    assert code(nodes.sample({**HELLO, "generation": {"seed": 1}})) == ("failed", "INVALID_INPUT")
    assert provider_server.requests == []


def test_answer(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Text blocks are joined; only reported usage counts."""
    usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1, "cache_creation": {}}
    provider_server.then(message_answer(TEXT, {"type": "thinking"}, TEXT, usage=usage))
    assert output(nodes.sample(HELLO)) == {
        "message": {"role": "assistant", "content": "hellohello"},
        "finishReason": "stop",
        "usage": {"inputTokens": 3, "outputTokens": 2, "cachedInputTokens": 1},
    }
    provider_server.then(message_answer(TEXT, stop="max_tokens"))
    assert output(nodes.sample(HELLO))["finishReason"] == "length"


def test_action_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A tool use becomes an action request whose target node comes from the descriptor."""
    use = {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": 1}}
    provider_server.then(message_answer(TEXT, use, stop="tool_use"))
    assert output(nodes.sample({**HELLO, "actions": [ACTION]}))["actionRequests"] == [
        {"id": "t1", "name": "search", "arguments": {"q": 1}, "targetNode": "X.Y"}
    ]
    assert code(nodes.sample(HELLO)) == ("failed", "UNDECLARED_ACTION")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (as_json({"error": {"message": KEY}}, status=529), "PROVIDER_HTTP_ERROR"),
        (as_json({"error": {"message": KEY}}, status=400), "PROVIDER_HTTP_ERROR"),
        (Reply((b"{not json",)), "INVALID_MODEL_OUTPUT"),
        (as_json({"content": "text"}), "INVALID_MODEL_OUTPUT"),
        (message_answer(), "INVALID_MODEL_OUTPUT"),
        (message_answer(TEXT, stop=None), "INCOMPLETE_MODEL_OUTPUT"),
        (message_answer(TEXT, stop="mystery"), "INVALID_MODEL_OUTPUT"),
        (
            message_answer({"type": "tool_use", "id": "1", "name": "search", "input": 3}),
            "INVALID_MODEL_OUTPUT",
        ),
        (Reply((b'{"content"',), then="cut"), "PROVIDER_HTTP_ERROR"),
    ],
)
def test_bad_answers(nodes: InferNodes, provider_server: ProviderServer, reply: Reply, expected: str) -> None:
    """Each kind of bad answer is a failed result with its code, and is asked for once."""
    provider_server.then(reply)
    assert code(nodes.sample({**HELLO, "actions": [ACTION]})) == ("failed", expected)
    assert len(provider_server.requests) == 1


def test_timeout_closes_the_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Past the call's timeout the result is a timeout, and the server sees the connection closed."""
    provider_server.then(hang(b"{"))
    assert code(nodes.sample(HELLO, call=InferCall(timeout_ms=200))) == ("timeout", "TIMEOUT")
    assert provider_server.client_closed.wait(5)


def test_stream(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A listener hears each piece of text; usage of start and end is put together."""
    deltas = [{"type": "text_delta", "text": part} for part in ("he", "llo")]
    provider_server.then(as_events(message_events(*deltas), done=False))
    events: list[dict[str, object]] = []
    result = nodes.sample(HELLO, call=InferCall(emit=events.append))
    assert [event.get("text") for event in events if event["type"] == "text_delta"] == ["he", "llo"]
    assert output(result) == {
        "message": {"role": "assistant", "content": "hello"},
        "finishReason": "stop",
        "usage": {"inputTokens": 4, "outputTokens": 2},
    }
    assert provider_server.requests[0].json["stream"] is True


def test_streamed_action_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A tool use whose input comes in pieces is put together."""
    use = {"type": "tool_use", "id": "t", "name": "search", "input": {}}
    events = message_events(stop="tool_use")
    events[4:4] = [
        {"type": "content_block_start", "index": 1, "content_block": use},
        *(
            {
                "type": "content_block_delta",
                "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": part},
            }
            for part in ('{"q', '": 2}')
        ),
    ]
    provider_server.then(as_events(events, done=False))
    result = nodes.sample({**HELLO, "actions": [ACTION]}, call=InferCall(emit=lambda _: None))
    assert [item["arguments"] for item in output(result)["actionRequests"]] == [{"q": 2}]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            as_events(message_events({"type": "text_delta", "text": "a"})[:-2], done=False),
            "INCOMPLETE_MODEL_OUTPUT",
        ),
        (as_events(message_events()[:3], then="cut"), "PROVIDER_HTTP_ERROR"),
        (as_events([*message_events()[:3], {"type": "error", "error": {"message": KEY}}]), "MODEL_ERROR"),
    ],
)
def test_broken_streams(
    nodes: InferNodes, provider_server: ProviderServer, reply: Reply, expected: str
) -> None:
    """A stream that breaks off ends in a failed result."""
    provider_server.then(reply)
    assert code(nodes.sample(HELLO, call=InferCall(emit=lambda _: None))) == ("failed", expected)


def test_content_stays_out_of_the_log(nodes: InferNodes, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key nor what was said reaches a log, at whatever level."""
    with caplog.at_level(logging.DEBUG):
        nodes.sample({"messages": [{"role": "user", "content": "canary-text"}]})
    assert "canary" not in caplog.text
