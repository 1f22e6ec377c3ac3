"""Web search with Brave and the webhook sink, against a real HTTP server; the sinks' receipts."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence

import pytest
import redis
from support.provider_server import ProviderServer, Reply, as_json, hang

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.interaction.base import ActionCall, InteractionCall, Tool
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.providers.brave import BraveSearch
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.sinks import LogSink, RedisStreamSink, WebhookSink
from ditto_tasks.interaction.values import ExternalResult, OutputReceipt
from ditto_tasks.interaction.web_search import Found, WebSearchProvider, is_safe_url, web_search_tool
from ditto_tasks.models import CancelToken
from ditto_tasks.state.redis import open_state_client

KEY = "canary-credential"
DELIVERY = {"deliveryId": "d1", "message": {"role": "assistant", "content": "canary-text"}}
HIT = {"title": "T &amp; <b>t</b>", "url": "https://a.example/x", "description": "D"}


@pytest.fixture
def web() -> Iterator[ProviderServer]:
    with ProviderServer(as_json({"web": {"results": [HIT]}})) as running:
        yield running


def search(
    provider: WebSearchProvider, call: InteractionCall | None = None, **arguments: object
) -> ExternalResult:
    registry = ToolRegistry()
    registry.register(web_search_tool(provider))
    allowed = Permissions(tools=frozenset({"web_search"}), network=frozenset({"brave"}))
    given = {"call": {"id": "c", "name": "web_search", "arguments": {"query": "q", **arguments}}}
    return InteractionNodes(registry, permissions=allowed).act_tool(given, call=call or InteractionCall())


def brave(web: ProviderServer) -> BraveSearch:
    return BraveSearch(KEY, endpoint=f"{web.url}/search")


def code(result: ExternalResult | OutputReceipt) -> tuple[str, str]:
    assert result.error is not None, result
    assert KEY not in str(result)
    return result.status, result.error.code


def test_golden_request(web: ProviderServer) -> None:
    """Brave is asked once, with the key in its header, and its entities are read."""
    result = search(brave(web), query="a b&c", limit=7)
    assert result.structured_content == {
        "results": [{"title": "T & <b>t</b>", "url": "https://a.example/x", "snippet": "D"}]
    }
    (request,) = web.requests
    assert request.path == "/search?q=a+b%26c&count=7"
    assert request.headers["x-subscription-token"] == KEY


@pytest.mark.parametrize(
    "reply",
    [
        as_json({"error": KEY}, status=429),
        as_json({}, status=302, location="http://127.0.0.1:1/"),
        Reply((b"{not json",)),
        as_json([]),
        as_json({"web": {"results": 3}}),
        Reply((b'{"web"',), then="cut"),
        Reply((b"x" * 2**20,) * 3),
    ],
)
def test_failing_search(web: ProviderServer, reply: Reply) -> None:
    """Whatever goes wrong with a search, it is WEB_SEARCH_FAILED."""
    web.then(reply)
    assert code(search(brave(web))) == ("failed", "WEB_SEARCH_FAILED")
    assert len(web.requests) == 1


def test_nothing_found(web: ProviderServer) -> None:
    """An answer without hits is an empty success."""
    web.then(as_json({"query": {}}))
    assert search(brave(web)).structured_content == {"results": []}


def test_cancelled_search(web: ProviderServer) -> None:
    """A cancelled search is WEB_SEARCH_CANCELLED, and its request is closed."""
    web.then(hang(b"{"))
    token = CancelToken()
    timer = threading.Timer(0.2, token.cancel)
    timer.start()
    assert code(search(brave(web), InteractionCall(token=token))) == ("cancelled", "WEB_SEARCH_CANCELLED")
    assert web.client_closed.wait(5)
    timer.join()


@pytest.mark.parametrize(
    "arguments",
    [{"query": ""}, {"query": "x" * 601}, {"limit": 4}, {"limit": 21}, {"limit": 5.5}, {"lang": "en"}],
)
def test_bad_arguments(arguments: dict[str, object]) -> None:
    """A query or limit out of bounds is INVALID_ARGUMENTS."""
    assert code(search(Listed([]), **arguments)) == ("failed", "INVALID_ARGUMENTS")


def test_too_many_words() -> None:
    """A query of 75 words is searched, one of 76 is refused."""
    assert search(Listed([]), query="w " * 75).status == "success"
    assert code(search(Listed([]), query="w " * 76))[1] == "INVALID_ARGUMENTS"


class Listed:
    """Finds what it is told to find."""

    name = "brave"

    def __init__(self, found: Sequence[Found]) -> None:
        self.found = found

    def search(self, query: str, *, limit: int, call: ActionCall) -> Sequence[Found]:
        return self.found


def test_hits_are_bounded() -> None:
    """Titles and snippets are cut, unsafe addresses left out, and no more hits given than asked for."""
    hits = [Found("t" * 300, f"https://x.example/{n}", "s" * 3_000) for n in range(9)]
    result = search(Listed([Found("bad", "https://u:p@x.example", ""), *hits]), limit=5)
    assert result.structured_content is not None
    found = result.structured_content["results"]
    assert [(len(hit["title"]), len(hit["snippet"])) for hit in found] == [(256, 2_048)] * 5


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://a.example", True),
        ("http://a.example:80/x?y", True),
        ("ftp://a.example", False),
        ("javascript:alert(1)", False),
        ("https://user@a.example", False),
        ("https://", False),
        ("https://[bad", False),
        ("", False),
    ],
)
def test_safe_urls(url: str, safe: bool) -> None:
    """Only http and https addresses with a host and without credentials are shown."""
    assert is_safe_url(url) is safe


def test_webhook(web: ProviderServer) -> None:
    """The webhook gets the whole delivery as JSON, and its id as the idempotency key."""
    receipt = InteractionNodes(sink=WebhookSink(f"{web.url}/hook?token={KEY}")).output(DELIVERY)
    assert (receipt.delivery_id, receipt.status) == ("d1", "accepted")
    (request,) = web.requests
    assert request.json == DELIVERY
    assert request.headers["idempotency-key"] == "d1"


@pytest.mark.parametrize(
    ("reply", "status", "expected"),
    [
        (as_json({}, status=400), "rejected", "WEBHOOK_REJECTED"),
        (as_json({}, status=301, location="http://127.0.0.1:1/"), "rejected", "WEBHOOK_REJECTED"),
        (as_json({}, status=503), "unknown", "WEBHOOK_FAILED"),
        (Reply((b"x",), then="cut"), "unknown", "HTTP_FAILED"),
    ],
)
def test_failing_webhook(web: ProviderServer, reply: Reply, status: str, expected: str) -> None:
    """A refusal is a rejection, no clear answer is an unknown outcome, and neither is repeated."""
    web.then(reply)
    receipt = InteractionNodes(sink=WebhookSink(f"{web.url}/?{KEY}")).output(DELIVERY)
    assert code(receipt) == (status, expected)
    assert len(web.requests) == 1


def test_hanging_webhook(web: ProviderServer) -> None:
    """A webhook that hangs leaves an unknown delivery at the timeout, and no open connection."""
    web.then(hang(b"{"))
    receipt = InteractionNodes(sink=WebhookSink(web.url), timeout_ms=200).output(DELIVERY)
    assert code(receipt) == ("unknown", "TIMEOUT")
    assert web.client_closed.wait(5)


def test_stream_sink(server: EmbeddedServer) -> None:
    """The Redis stream holds the delivery, and expires."""
    client: redis.Redis = open_state_client(server.redis_url(0))
    receipt = InteractionNodes(sink=RedisStreamSink(client, deployment="t")).output(DELIVERY)
    ((_, fields),) = client.xrange("ditto:t:output")
    assert receipt.status == "accepted"
    assert fields[b"deliveryId"] == b"d1"
    assert json.loads(fields[b"data"]) == DELIVERY
    assert client.pttl("ditto:t:output") > 0
    client.close()


def test_log_sink(caplog: pytest.LogCaptureFixture) -> None:
    """The log says how much was put out, and not what."""
    with caplog.at_level(logging.INFO):
        assert InteractionNodes(sink=LogSink()).output(DELIVERY).status == "accepted"
    assert "output of" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_schemas_fetch_nothing(web: ProviderServer) -> None:
    """A tool's schema that points to a URL refuses arguments, and the URL is not asked."""
    web.then(as_json({"type": "object"}))
    registry = ToolRegistry()
    schema = {"$ref": f"{web.url}/schema.json"}
    registry.register(Tool(name="t", description="", input_schema=schema, run=lambda *_: "ok"))
    nodes = InteractionNodes(registry, permissions=Permissions(tools=frozenset({"t"})))
    refused = nodes.act_tool({"call": {"id": "c", "name": "t", "arguments": {}}})
    assert code(refused) == ("failed", "INVALID_ARGUMENTS")
    assert web.requests == []
