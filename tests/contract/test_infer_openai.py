"""The OpenAI-compatible provider against a real HTTP server: golden requests, answers, failures."""

import logging
import time
from collections.abc import Iterator
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
    tool_call,
)

from ditto_tasks.infer.base import InferCall
from ditto_tasks.infer.nodes import InferNodes
from ditto_tasks.infer.providers.openai_compatible import OpenAiCompatibleProvider
from ditto_tasks.models import CancelToken, NodeResult, to_wire

KEY = "canary-credential"
ACTION = {"name": "search", "description": "find", "inputSchema": {"type": "object"}, "targetNode": "X.Y"}
HELLO = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def provider_server() -> Iterator[ProviderServer]:
    with ProviderServer(chat_answer()) as running:
        yield running


@pytest.fixture
def nodes(provider_server: ProviderServer) -> Iterator[InferNodes]:
    provider = OpenAiCompatibleProvider(base_url=f"{provider_server.url}/v1", api_key=KEY, model="m")
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
    """Every field of a request reaches the server in its chat-completions form, and nothing else does."""
    nodes.sample(
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": ["look", {"type": "image_url", "image_url": {"url": "u"}}]},
                {
                    "role": "assistant",
                    "content": "",
                    "metadata": {"actionRequests": [{"id": "1", "name": "search", "arguments": {"q": "é"}}]},
                },
                {"role": "tool", "content": "found", "metadata": {"callId": "1"}},
            ],
            "model": {"model": "big", "provider": "main", "providerOptions": {"user": "u1"}},
            "generation": {
                "temperature": 0.5,
                "topP": 1,
                "topK": 4,
                "maxTokens": 9,
                "stop": ["END"],
                "seed": 7,
            },
            "actions": [ACTION],
        }
    )
    (request,) = provider_server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "big",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "u"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [tool_call("1", "search", '{"q":"é"}')],
            },
            {"role": "tool", "content": "found", "tool_call_id": "1"},
        ],
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 4,
        "max_tokens": 9,
        "stop": ["END"],
        "seed": 7,
        "tools": [
            {
                "type": "function",
                "function": {"name": "search", "parameters": {"type": "object"}, "description": "find"},
            }
        ],
        "user": "u1",
    }


def test_minimal_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A request without options leaves every choice to the server and uses the provider's model."""
    nodes.sample(HELLO)
    assert provider_server.requests[0].json == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_environment_is_not_read(
    monkeypatch: pytest.MonkeyPatch, nodes: InferNodes, provider_server: ProviderServer
) -> None:
    """The client library's own environment variables change nothing of a request."""
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "stray")
    provider = OpenAiCompatibleProvider(base_url=provider_server.url, api_key=KEY, model="m")
    other = InferNodes({"main": provider})
    other.sample(HELLO)
    other.close()
    assert not [value for value in provider_server.requests[0].headers.values() if "stray" in value]


def test_answer_with_usage(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Usage is passed on as reported, and only the counts that were reported."""
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
    provider_server.then(chat_answer("yes", usage=usage))
    assert output(nodes.sample(HELLO)) == {
        "message": {"role": "assistant", "content": "yes"},
        "finishReason": "stop",
        "usage": {"inputTokens": 3, "outputTokens": 2, "cachedInputTokens": 1},
    }


def test_missing_usage_is_not_invented(nodes: InferNodes) -> None:
    """An answer without usage gives a sample without usage."""
    assert "usage" not in output(nodes.sample(HELLO))


def test_length_is_a_success(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A truncated answer is a successful sample that says so."""
    provider_server.then(chat_answer("cut", finish="length"))
    assert output(nodes.sample(HELLO))["finishReason"] == "length"


def test_action_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A tool call becomes an action request whose target node comes from the descriptor."""
    provider_server.then(
        chat_answer(None, finish="tool_calls", tool_calls=[tool_call("t1", "search", '{"q": 1}')])
    )
    assert output(nodes.sample({**HELLO, "actions": [ACTION]})) == {
        "message": {"role": "assistant", "content": ""},
        "actionRequests": [{"id": "t1", "name": "search", "arguments": {"q": 1}, "targetNode": "X.Y"}],
        "finishReason": "action_request",
    }


def test_undeclared_action(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A tool call that was not declared fails the sample."""
    provider_server.then(chat_answer(None, finish="tool_calls", tool_calls=[tool_call("1", "rm", "{}")]))
    assert code(nodes.sample({**HELLO, "actions": [ACTION]})) == ("failed", "UNDECLARED_ACTION")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (as_json({"error": {"message": KEY}}, status=401), "PROVIDER_HTTP_ERROR"),
        (as_json({"error": {"message": KEY}}, status=500), "PROVIDER_HTTP_ERROR"),
        (Reply((b"{not json",)), "INVALID_MODEL_OUTPUT"),
        (Reply((b'{"choices": [NaN]}',)), "INVALID_MODEL_OUTPUT"),
        (Reply((b"[" * 5_000,)), "INVALID_MODEL_OUTPUT"),
        (as_json([]), "INVALID_MODEL_OUTPUT"),
        (as_json({"choices": []}), "INVALID_MODEL_OUTPUT"),
        (chat_answer(None), "INVALID_MODEL_OUTPUT"),
        (chat_answer("x", finish=None), "INCOMPLETE_MODEL_OUTPUT"),
        (chat_answer("x", finish="mystery"), "INVALID_MODEL_OUTPUT"),
        (
            chat_answer(None, finish="length", tool_calls=[tool_call("1", "search", '{"q"')]),
            "INCOMPLETE_MODEL_OUTPUT",
        ),
        (
            chat_answer(None, finish="tool_calls", tool_calls=[tool_call("1", "search", '{"q"')]),
            "INVALID_MODEL_OUTPUT",
        ),
        (
            chat_answer(None, finish="tool_calls", tool_calls=[tool_call("1", "search", "[]")]),
            "INVALID_MODEL_OUTPUT",
        ),
        (
            chat_answer(None, finish="tool_calls", tool_calls=[tool_call("1", "search", "{}")] * 2),
            "INVALID_MODEL_OUTPUT",
        ),
        (Reply((b'{"choices"',), then="cut"), "PROVIDER_HTTP_ERROR"),
        (chat_answer("x" * 2**23), "INVALID_MODEL_OUTPUT"),
    ],
)
def test_bad_answers(nodes: InferNodes, provider_server: ProviderServer, reply: Reply, expected: str) -> None:
    """Each kind of bad answer is a failed result with its code, and is asked for once."""
    provider_server.then(reply)
    assert code(nodes.sample({**HELLO, "actions": [ACTION]})) == ("failed", expected)
    assert len(provider_server.requests) == 1


def test_nobody_listens() -> None:
    """A server that is not there is a failed result."""
    with ProviderServer(chat_answer()) as gone:
        url = gone.url
    nodes = InferNodes({"main": OpenAiCompatibleProvider(base_url=url, model="m")})
    assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")
    nodes.close()


def test_timeout_closes_the_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Past the call's timeout the result is a timeout, and the server sees the connection closed."""
    provider_server.then(hang(b"{"))
    assert code(nodes.sample(HELLO, call=InferCall(timeout_ms=200))) == ("timeout", "TIMEOUT")
    assert provider_server.client_closed.wait(5)


def test_dripping_body_does_not_extend_the_timeout(
    nodes: InferNodes, provider_server: ProviderServer
) -> None:
    """A body that comes byte by byte is cut at the same deadline as one that does not come."""
    provider_server.then(DRIPPING)
    assert code(nodes.sample(HELLO, call=InferCall(timeout_ms=300))) == ("timeout", "TIMEOUT")
    assert provider_server.client_closed.wait(CUT_S)


def test_cancellation_closes_the_request(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Cancelling the token ends the call as cancelled, and the server sees the connection closed."""
    provider_server.then(hang(b"{"))
    token = CancelToken()
    timer = Timer(0.2, token.cancel)
    timer.start()
    assert code(nodes.sample(HELLO, call=InferCall(token=token))) == ("cancelled", "CANCELLED")
    timer.join()
    assert provider_server.client_closed.wait(5)


def test_no_retry_by_default(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A busy provider is asked once unless the caller wants more."""
    provider_server.then(as_json({}, status=503), chat_answer())
    assert code(nodes.sample(HELLO)) == ("failed", "PROVIDER_HTTP_ERROR")


def test_retry_waits_as_told(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """With retries a busy provider is asked again, no sooner than it said."""
    provider_server.then(as_json({}, status=429, retry_after_ms="150"), chat_answer("again"))
    begun = time.monotonic()
    result = nodes.sample(HELLO, call=InferCall(retries=2))
    assert output(result)["message"] == {"role": "assistant", "content": "again"}
    assert time.monotonic() - begun >= 0.15
    assert len(provider_server.requests) == 2


def test_refusals_are_not_retried(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """An error that a repeat can't cure is final whatever the retries."""
    provider_server.then(as_json({}, status=400), chat_answer())
    assert code(nodes.sample(HELLO, call=InferCall(retries=3))) == ("failed", "PROVIDER_HTTP_ERROR")
    assert len(provider_server.requests) == 1


def test_retry_does_not_outlive_the_deadline(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A wait that would pass the deadline is not begun."""
    provider_server.then(as_json({}, status=429, retry_after="20"), chat_answer())
    assert code(nodes.sample(HELLO, call=InferCall(retries=1, timeout_ms=2_000)))[1] == "PROVIDER_HTTP_ERROR"
    assert len(provider_server.requests) == 1


def test_stream(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """A listener hears start, each piece of text and one result, which is the one returned."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    provider_server.then(
        as_events(
            [
                chat_chunk({"role": "assistant", "content": "he"}),
                chat_chunk({"content": "llo"}),
                chat_chunk({}, finish="stop"),
                {"choices": [], "usage": usage},
            ]
        )
    )
    events: list[dict[str, object]] = []
    result = nodes.sample(HELLO, call=InferCall(emit=events.append))
    assert [event["type"] for event in events] == ["start", "text_delta", "text_delta", "result"]
    assert [event.get("text") for event in events[1:3]] == ["he", "llo"]
    assert events[-1]["result"] == to_wire(result)
    assert output(result)["usage"] == {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    body = provider_server.requests[0].json
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_streamed_action_requests(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """Tool calls that come in pieces are put together by their index."""
    first = {"index": 0, "id": "a", "function": {"name": "search", "arguments": '{"q'}}
    second = {"index": 1, "id": "b", "function": {"name": "search", "arguments": "{}"}}
    rest = {"index": 0, "function": {"arguments": '":2}'}}
    deltas = [chat_chunk({"tool_calls": [first]}), chat_chunk({"tool_calls": [second, rest]})]
    provider_server.then(as_events([*deltas, chat_chunk({}, finish="tool_calls")]))
    result = nodes.sample({**HELLO, "actions": [ACTION]}, call=InferCall(emit=lambda _: None))
    assert [item["arguments"] for item in output(result)["actionRequests"]] == [{"q": 2}, {}]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (as_events([chat_chunk({"content": "a"})]), "INCOMPLETE_MODEL_OUTPUT"),
        (as_events([chat_chunk({"content": "a"})], then="cut"), "PROVIDER_HTTP_ERROR"),
        (as_events([chat_chunk({"content": "a"}), {"error": {"message": KEY}}]), "MODEL_ERROR"),
        (Reply((b"data: {broken\n\n",)), "INVALID_MODEL_OUTPUT"),
        (as_json({}, status=404), "PROVIDER_HTTP_ERROR"),
    ],
)
def test_broken_streams(
    nodes: InferNodes, provider_server: ProviderServer, reply: Reply, expected: str
) -> None:
    """A stream that breaks off ends in exactly one failed result."""
    provider_server.then(reply)
    events: list[dict[str, object]] = []
    result = nodes.sample(HELLO, call=InferCall(emit=events.append))
    assert code(result) == ("failed", expected)
    assert [event["type"] for event in events].count("result") == 1


def test_endpoint_mismatch(nodes: InferNodes, provider_server: ProviderServer) -> None:
    """An endpoint that is not the provider's own is refused before anything is sent."""
    model = {"model": "m", "endpoint": "https://elsewhere.example"}
    assert code(nodes.sample({**HELLO, "model": model})) == ("failed", "ENDPOINT_MISMATCH")
    same = {"model": "m", "endpoint": f"{provider_server.url}/v1/"}
    assert nodes.sample({**HELLO, "model": same}).status == "success"
    assert len(provider_server.requests) == 1


def test_content_stays_out_of_the_log(nodes: InferNodes, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key nor what was said reaches a log, at whatever level."""
    with caplog.at_level(logging.DEBUG):
        nodes.sample({"messages": [{"role": "user", "content": "canary-text"}]})
    assert "canary" not in caplog.text
