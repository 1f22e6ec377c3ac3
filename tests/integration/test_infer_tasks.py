"""The INFER tasks through a real worker, with a real HTTP server as the model's provider."""

import json
from collections.abc import Iterator

import pytest
import redis
from support.polling import eventually
from support.provider_server import (
    ProviderServer,
    as_events,
    as_json,
    chat_chunk,
    hang,
)
from support.workers import BROKER_DB, RESULT_TIMEOUT_S, WorkerProcess, client_app

from ditto_tasks.celery import DittoCelery
from ditto_tasks.embedded import EmbeddedServer

KEY = "canary-credential"
ASKED = "canary-question"
HELLO = {"messages": [{"role": "user", "content": ASKED}]}
SAMPLE = "INFER.REASONING.SAMPLE"


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    with ProviderServer(hang()) as running:
        yield running


@pytest.fixture
def provider_server(provider: ProviderServer) -> ProviderServer:
    """The provider with nothing asked yet."""
    provider.requests.clear()
    provider.client_closed.clear()
    return provider


def worker_env(provider: ProviderServer) -> dict[str, str]:
    return {
        "DITTO_SHARED_PROVIDERS": "main",
        "DITTO_SHARED_PROVIDER_MAIN_KIND": "openai",
        "DITTO_SHARED_PROVIDER_MAIN_BASE_URL": provider.url,
        "DITTO_SHARED_PROVIDER_MAIN_API_KEY": KEY,
        "DITTO_SHARED_PROVIDER_MAIN_MODEL": "m",
    }


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    """A server that is not emptied between tests, for one worker serves them all."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="module")
def worker(own_server: EmbeddedServer, provider: ProviderServer) -> Iterator[WorkerProcess]:
    with WorkerProcess(own_server, queues=["ditto.infer"], env=worker_env(provider)) as running:
        yield running


@pytest.fixture(scope="module")
def app(own_server: EmbeddedServer, worker: WorkerProcess) -> Iterator[DittoCelery]:
    opened = client_app(own_server)
    yield opened
    opened.close()


@pytest.fixture
def broker(own_server: EmbeddedServer) -> Iterator["redis.Redis"]:
    client = redis.Redis.from_url(own_server.redis_url(BROKER_DB))
    yield client
    client.close()


def send(app: DittoCelery, node: str = SAMPLE, task_id: str | None = None, **wire: object) -> object:
    return app.send_task(node, kwargs=wire or HELLO, task_id=task_id)


def ask(
    app: DittoCelery, node: str = SAMPLE, task_id: str | None = None, **wire: object
) -> dict[str, object]:
    return send(app, node, task_id, **wire).get(timeout=RESULT_TIMEOUT_S)  # type: ignore[attr-defined]  # AsyncResult


def streamed(text: str) -> object:
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    chunks = [chat_chunk({"content": part}) for part in text]
    return as_events([*chunks, chat_chunk({}, finish="stop"), {"choices": [], "usage": usage}])


def events(broker: "redis.Redis", task_id: str) -> list[dict[str, object]]:
    return [json.loads(fields[b"data"]) for _, fields in broker.xrange(f"ditto:default:events:{task_id}")]


def test_sample_is_streamed_recorded_and_not_repeated(
    app: DittoCelery, provider_server: ProviderServer, broker: "redis.Redis", worker: WorkerProcess
) -> None:
    """A sample can be followed, its second delivery asks no model, and logs hold neither key nor text."""
    provider_server.then(streamed("hello"))  # type: ignore[arg-type]  # a Reply
    first = ask(app, task_id="t1")
    assert (first["executionId"], first["status"]) == ("t1", "success")
    assert first["output"]["message"] == {"role": "assistant", "content": "hello"}
    assert first["output"]["usage"] == {"inputTokens": 2, "outputTokens": 1, "totalTokens": 3}
    followed = events(broker, "t1")
    assert followed[0] == {"type": "start", "executionId": "t1", "node": SAMPLE}
    assert "".join(event["text"] for event in followed if event["type"] == "text_delta") == "hello"
    assert followed[-1] == {"type": "result", "result": first}
    assert ask(app, task_id="t1") == first
    assert len(provider_server.requests) == 1
    assert KEY not in worker.logs()
    assert ASKED not in worker.logs()


def test_tenants_share_no_sample(app: DittoCelery, provider_server: ProviderServer) -> None:
    """Two tenants with one operation id are each answered by the model, a repeat of one is not."""
    provider_server.then(streamed("one"), streamed("two"), streamed("three"))  # type: ignore[arg-type]  # Replies
    said = [
        ask(app, **HELLO, ditto={"operationId": "same", "tenant": who})["output"]["message"]["content"]  # type: ignore[index]  # any JSON
        for who in ("acme", "globex", "acme")
    ]
    assert said == ["one", "two", "one"]


def test_other_question_under_the_same_id_is_refused(
    app: DittoCelery, provider_server: ProviderServer
) -> None:
    """A known operation id with another input is a CONFLICT, and no model is asked."""
    provider_server.then(streamed("a"))  # type: ignore[arg-type]  # a Reply
    ask(app, task_id="t4")
    other = ask(app, messages=[{"role": "user", "content": "other"}], ditto={"operationId": "t4"})
    assert (other["status"], other["error"]["code"]) == ("failed", "CONFLICT")
    assert len(provider_server.requests) == 1


def test_failures_are_results(app: DittoCelery, provider_server: ProviderServer) -> None:
    """Bad input, a refusing provider and an unknown option are failed results of successful tasks."""
    provider_server.then(as_json({"error": KEY}, status=401))
    refused = ask(app)
    assert (refused["status"], refused["error"]["code"]) == ("failed", "PROVIDER_HTTP_ERROR")
    assert KEY not in str(refused)
    assert ask(app, messages=[])["error"]["code"] == "INVALID_INPUT"
    assert ask(app, **HELLO, ditto={"stream": True})["error"]["code"] == "INVALID_INPUT"
    assert ask(app, "INFER.REASONING.REFLECT", target={}, mode="verify")["error"]["code"] == "INVALID_INPUT"


def test_cancelling_closes_the_request(app: DittoCelery, provider_server: ProviderServer) -> None:
    """Cancelling a running task closes its HTTP request and gives a cancelled result."""
    provider_server.then(hang(b"data: "))
    running = send(app, task_id="t2")
    eventually(lambda: provider_server.requests)
    app.coordination.cancel("t2")
    result = running.get(timeout=RESULT_TIMEOUT_S)  # type: ignore[attr-defined]  # AsyncResult
    assert (result["status"], result["error"]["code"]) == ("cancelled", "CANCELLED")
    assert provider_server.client_closed.wait(5)


def test_timeout_option(app: DittoCelery, provider_server: ProviderServer) -> None:
    """The option timeoutMs bounds the call."""
    provider_server.then(hang(b"data: "))
    late = ask(app, **HELLO, ditto={"timeoutMs": 200})
    assert (late["status"], late["error"]["code"]) == ("timeout", "TIMEOUT")


def test_retries_option(app: DittoCelery, provider_server: ProviderServer) -> None:
    """The option retries asks a busy provider again."""
    provider_server.then(as_json({}, status=503, retry_after_ms="1"), streamed("at last"))  # type: ignore[arg-type]  # Replies
    assert ask(app, **HELLO, ditto={"retries": 1})["status"] == "success"
    assert len(provider_server.requests) == 2


def test_built_in_provider_beside_a_configured_one(app: DittoCelery, provider_server: ProviderServer) -> None:
    """The extractive provider answers when it is named."""
    answered = ask(app, **HELLO, model={"provider": "extractive", "model": "extractive"})
    assert answered["output"]["message"]["content"].startswith("No model is configured")
    assert provider_server.requests == []


def test_cache_is_shared_through_redis(app: DittoCelery) -> None:
    """The cache nodes work as tasks."""
    key = {"scope": {"sessionId": "s"}, "key": "k", "namespace": "n"}
    written = ask(app, "INFER.CACHE.WRITE", key=key, value=[1], ttlMs=60_000, tags=["t"])
    assert written["output"] == {"written": True}
    assert ask(app, "INFER.CACHE.LOOKUP", key=key)["output"] == {"hit": True, "value": [1]}
    assert ask(app, "INFER.CACHE.INVALIDATE", tag="t")["output"] == {"removed": 1}


def test_second_delivery_waits_for_the_first(app: DittoCelery, provider_server: ProviderServer) -> None:
    """Two deliveries at the same time ask the model once, and both get its answer."""
    usage = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    slow = [*(chat_chunk({"content": part}) for part in "slow"), chat_chunk({}, finish="stop")]
    provider_server.then(as_events([*slow, {"choices": [], "usage": usage}], pause_s=0.3))
    both = [send(app, **HELLO, ditto={"operationId": "twice"}) for _ in range(2)]
    results = [one.get(timeout=RESULT_TIMEOUT_S) for one in both]  # type: ignore[attr-defined]  # AsyncResult
    assert [result["output"]["message"]["content"] for result in results] == ["slow"] * 2
    assert len(provider_server.requests) == 1


@pytest.mark.timeout(120)  # two cold starts, and a lease that lapses
@pytest.mark.parametrize(
    ("on_unknown", "ends", "asked"),
    [("fail", ("failed", "OUTCOME_UNKNOWN"), 1), ("repeat", ("success", None), 2)],
)
def test_killed_worker_leaves_an_unknown_sample(
    server: EmbeddedServer,
    provider_server: ProviderServer,
    on_unknown: str,
    ends: tuple[str, str | None],
    asked: int,
) -> None:
    """A sample whose worker was killed while asking is unknown, and repeated only where wanted."""
    provider_server.then(hang(b"data: "), streamed("again"))  # type: ignore[arg-type]  # a Reply
    app, env = client_app(server), worker_env(provider_server)
    with WorkerProcess(server, queues=["ditto.infer"], env=env) as mortal:
        send(app, task_id="t9")
        eventually(lambda: provider_server.requests)
        mortal.kill()
    with WorkerProcess(server, queues=["ditto.infer"], env=env, name="w2"):
        result = ask(app, **HELLO, ditto={"operationId": "t9", "onUnknown": on_unknown})
    app.close()
    assert (result["status"], result.get("error", {}).get("code")) == ends  # type: ignore[attr-defined]  # an object
    assert len(provider_server.requests) == asked
