"""The Gemini provider against a real HTTP server: golden requests, answers, failures."""

import logging
from collections.abc import Iterator

import pytest
from support.provider_server import ProviderServer, Reply, as_events, as_json, hang

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.google import GoogleProvider
from ditto_tasks.models import NodeResult, to_wire

KEY = "canary-credential"
ACTION = {"name": "search", "description": "find", "inputSchema": {"type": "object"}, "targetNode": "X.Y"}
HELLO = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = {"text": "hello"}


def answer(*parts: object, finish: str | None = "STOP", usage: object = None) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    whole: dict[str, object] = {"candidates": [candidate]}
    return whole if usage is None else {**whole, "usageMetadata": usage}


@pytest.fixture
def provider_server() -> Iterator[ProviderServer]:
    with ProviderServer(as_json(answer(TEXT))) as running:
        yield running


@pytest.fixture
def nodes(provider_server: ProviderServer) -> Iterator[InferNodes]:
    opened = InferNodes({"main": GoogleProvider(base_url=provider_server.url, api_key=KEY, model="m")})
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
    """Every field of a request reaches the server in its generateContent form, and nothing else does."""
    requests = [{"id": "1", "name": "search", "arguments": {"q": "é"}}]
    nodes.sample(
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": ["look", "here"]},
                {"role": "assistant", "content": "so", "metadata": {"actionRequests": requests}},
                {"role": "tool", "content": "found", "metadata": {"callId": "1", "source": "search"}},
            ],
            "model": {"model": "big"},
            "generation": {"temperature": 0.5, "topP": 1, "maxTokens": 9, "stop": ["END"], "seed": 7},
            "actions": [ACTION],
        }
    )
    (request,) = provider_server.requests
    assert request.path.endswith("/models/big:generateContent")
    assert request.headers["x-goog-api-key"] == KEY
    body = request.json
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "look"}, {"text": "here"}]},
        {
            "role": "model",
            "parts": [
                {"text": "so"},
                {"functionCall": {"id": "1", "name": "search", "args": {"q": "é"}}},
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "1", "name": "search", "response": {"output": "found"}}}],
        },
    ]
    assert body["systemInstruction"]["parts"] == [{"text": "be brief"}]
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 1,
        "maxOutputTokens": 9,
        "stopSequences": ["END"],
        "seed": 7,
    }
    assert [each["name"] for each in body["tools"][0]["functionDeclarations"]] == ["search"]
    assert set(body) == {"contents", "systemInstruction", "generationConfig", "tools"}


def test_environment_is_not_read(monkeypatch: pytest.MonkeyPatch, provider_server: ProviderServer) -> None:
    """The client library's own environment variables bring no credential into a request."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "stray")
    nodes = InferNodes({"main": GoogleProvider(base_url=provider_server.url, api_key=KEY, model="m")})
    nodes.sample(HELLO)
    nodes.close()
    assert not [value for value in provider_server.requests[0].headers.values() if "stray" in value]


def test_answer(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Texts are joined without the model's thoughts; usage is passed on as reported."""
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 9, "thoughtsTokenCount": 4}
    provider_server.then(as_json(answer(TEXT, {"text": "hm", "thought": True}, TEXT, usage=usage)))
    assert output(nodes.sample(HELLO)) == {
        "message": {"role": "assistant", "content": "hellohello"},
        "finishReason": "stop",
        "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 9, "reasoningTokens": 4},
    }
    provider_server.then(as_json(answer(TEXT, finish="MAX_TOKENS")))
    assert output(nodes.sample(HELLO))["finishReason"] == "length"


def test_action_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A function call becomes an action request; one without an id gets its position as id."""
    provider_server.then(as_json(answer({"functionCall": {"name": "search", "args": {"q": 1}}})))
    sampled = output(nodes.sample({**HELLO, "actions": [ACTION]}))
    assert sampled["actionRequests"] == [
        {"id": "call-0", "name": "search", "arguments": {"q": 1}, "targetNode": "X.Y"}
    ]
    assert sampled["finishReason"] == "action_request"
    assert code(nodes.sample(HELLO)) == ("failed", "UNDECLARED_ACTION")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (as_json({"error": {"code": 429, "message": KEY}}, status=429), "PROVIDER_HTTP_ERROR"),
        (as_json({"error": {"code": 400, "message": KEY}}, status=400), "PROVIDER_HTTP_ERROR"),
        (Reply((b"{not json",)), "INVALID_MODEL_OUTPUT"),
        (as_json(answer()), "INVALID_MODEL_OUTPUT"),
        (as_json(answer(TEXT, finish=None)), "INCOMPLETE_MODEL_OUTPUT"),
        (as_json({}), "INCOMPLETE_MODEL_OUTPUT"),
        (Reply((b'{"candidates"',), then="cut"), "PROVIDER_HTTP_ERROR"),
    ],
)
def test_bad_answers(nodes: InferNodes, provider_server: ProviderServer, reply: Reply, expected: str) -> None:
    """Each kind of bad answer is a failed result with its code, and is asked for once."""
    provider_server.then(reply)
    assert code(nodes.sample(HELLO)) == ("failed", expected)
    assert len(provider_server.requests) == 1


def test_timeout_closes_the_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Past the call's timeout the result is a timeout, and the server sees the connection closed."""
    provider_server.then(hang(b"{"))
    assert code(nodes.sample(HELLO, call=InferCall(timeout_ms=300))) == ("timeout", "TIMEOUT")
    assert provider_server.client_closed.wait(5)


def test_stream(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A listener hears each piece of text; the pieces and the last usage make the sample."""
    chunks = [answer({"text": "he"}, finish=None), answer({"text": "llo"}, usage={"totalTokenCount": 3})]
    provider_server.then(as_events(chunks, done=False))
    events: list[dict[str, object]] = []
    result = nodes.sample(HELLO, call=InferCall(emit=events.append))
    assert [event.get("text") for event in events if event["type"] == "text_delta"] == ["he", "llo"]
    assert output(result)["message"] == {"role": "assistant", "content": "hello"}
    assert output(result)["usage"] == {"totalTokens": 3}


def test_broken_stream(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A stream that ends without an end is a failed result."""
    provider_server.then(as_events([answer({"text": "he"}, finish=None)], done=False))
    result = nodes.sample(HELLO, call=InferCall(emit=lambda _: None))
    assert code(result) == ("failed", "INCOMPLETE_MODEL_OUTPUT")


def test_content_stays_out_of_the_log(nodes: InferNodes, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key nor what was said reaches a log, at whatever level."""
    with caplog.at_level(logging.DEBUG):
        nodes.sample({"messages": [{"role": "user", "content": "canary-text"}]})
    assert "canary" not in caplog.text
