"""How many streams of events may be open, for how long, and that a reader who leaves gives the place back."""

import asyncio
import gc
import json
from contextlib import ExitStack
from uuid import uuid4

import pytest
import redis
from support.deployments import deployment
from support.polling import eventually
from support.web import ANN, BOB, application, browsing, server_sent, serving

from ditto_tasks.client import AsyncDitto
from ditto_tasks.errors import DittoError
from ditto_tasks.keys import Keys
from ditto_tasks.web import AnswerBody, StreamLimits, WebService, fastapi

WAIT_S = 30.0
ITEMS = [{"id": "a", "content": "text"}]


@pytest.fixture(scope="module")
def deployed():
    """A deployment in which nobody works: no task ends."""
    with deployment() as running:
        yield running


@pytest.fixture
def broker(deployed):
    with redis.Redis.from_url(deployed.server.redis_url(0)) as client:
        yield client


def ask(http):
    answer = http.post(f"/sessions/{uuid4()}/answer", json={"question": "?", "init": ITEMS})
    assert answer.status_code == 202, answer.text
    return f"/tasks/{answer.json()['id']}/events"


def readers(broker):
    return sum(1 for client in broker.client_list() if client["cmd"] == "xread")


def test_a_tenant_has_so_many_streams(deployed):
    """One more is 429 with Retry-After, another tenant has its own, and a place that was left is free."""
    app = application(deployed.settings, streams=StreamLimits(per_tenant=2))
    with serving(app) as url, browsing(url, ANN) as ann, browsing(url, BOB) as bob:
        events, others = ask(ann), ask(bob)
        with ann.stream("GET", events) as kept:
            with ann.stream("GET", events) as first:
                refused = ann.get(events)
                with bob.stream("GET", others) as other:
                    statuses = [kept.status_code, first.status_code, other.status_code]
            assert statuses == [200, 200, 200]
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "TOO_MANY_STREAMS")
            assert int(refused.headers["Retry-After"]) > 0
            eventually(lambda: opens(ann, events), WAIT_S)


def test_a_process_has_so_many_streams(deployed):
    """One more is 503 with Retry-After, whoever asks."""
    app = application(deployed.settings, streams=StreamLimits(per_process=1))
    with serving(app) as url, browsing(url, ANN) as ann, browsing(url, BOB) as bob:
        events = ask(bob)
        with ann.stream("GET", ask(ann)):
            refused = bob.get(events)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "STREAMS_EXHAUSTED")
        assert int(refused.headers["Retry-After"]) > 0
        eventually(lambda: opens(bob, events), WAIT_S)


def test_readers_that_come_and_go_leave_nothing(deployed, broker):
    """After many more readers than places there are, one after another, a place and no connection is left."""
    app = application(deployed.settings, streams=StreamLimits(per_tenant=3, per_process=3))
    with serving(app) as url, browsing(url, ANN) as ann:
        events = ask(ann)
        for _ in range(4):
            with ExitStack() as streams:
                for _ in range(3):
                    eventually(lambda: opened(streams, ann, events), WAIT_S)
        eventually(lambda: readers(broker) == 0, WAIT_S)
        assert opens(ann, events)


def test_a_stream_lasts_no_longer_than_it_may(deployed):
    """It ends without `end`, so that its reader comes again."""
    app = application(deployed.settings, streams=StreamLimits(longest_s=0.5))
    with serving(app) as url, browsing(url, ANN) as ann, ann.stream("GET", ask(ann)) as response:
        assert "end" not in {event.get("event") for event in server_sent(response)}


def test_a_silent_stream_says_that_it_is_there(deployed, monkeypatch):
    """Every so often a comment, which an EventSource passes over."""
    monkeypatch.setattr(fastapi, "PING_S", 1)
    app = application(deployed.settings)
    patience = {"timeout": 10.0}  # shorter than the library's own pause
    with serving(app) as url, browsing(url, ANN) as ann, ann.stream("GET", ask(ann), **patience) as response:
        comments = (line for line in response.iter_lines() if line.startswith(": ping"))
        assert [next(comments)[:6] for _ in range(2)] == [": ping"] * 2


def test_a_reader_that_takes_nothing_is_let_go(deployed, broker, monkeypatch):
    """A client that keeps its connection and reads no more gives its place and the connection back."""
    monkeypatch.setattr(fastapi, "SEND_S", 1)
    app = application(deployed.settings, streams=StreamLimits(per_tenant=1))
    with serving(app) as url, browsing(url, ANN) as ann:
        events = ask(ann)
        task = events.split("/")[2]
        for _ in range(24):
            fields = {"type": "text_delta", "data": json.dumps("x" * 1_000_000)}
            broker.xadd(Keys("default").events(task), fields)
        with ann.stream("GET", events):  # and takes nothing of it
            eventually(lambda: readers(broker) == 0 and opens(ann, ask(ann)), WAIT_S)
        broker.delete(Keys("default").events(task))


def test_a_reader_who_left_before_the_first_event_gives_the_place_back(deployed):
    """A stream that nobody began to read holds no place once nobody has it."""

    async def lasting():
        async with AsyncDitto(deployed.settings) as client:
            service = WebService(client, streams=StreamLimits(per_tenant=1))
            task = await service.answer("ann", "s", AnswerBody(question="?", create=True))
            held = await service.events("ann", task, None)
            with pytest.raises(DittoError, match="TOO_MANY_STREAMS"):
                await service.events("ann", task, None)
            del held
            gc.collect()
            again = await service.events("ann", task, None)
            await again.aclose()
            await service.close()

    asyncio.run(lasting())


def test_a_stream_that_has_ended_holds_no_place(deployed):
    """Not even while whoever read it still has it."""

    async def ended():
        async with AsyncDitto(deployed.settings) as client:
            service = WebService(client, streams=StreamLimits(per_tenant=1, longest_s=0.2))
            task = await service.answer("ann", "s", AnswerBody(question="?", create=True))
            held = await service.events("ann", task, None)
            assert "end" not in [event.type async for event in held]
            await (await service.events("ann", task, None)).aclose()
            await service.close()

    asyncio.run(ended())


def opens(http, events):
    """Whether a stream opens; it is closed again."""
    with http.stream("GET", events) as response:
        return response.status_code == 200


def opened(streams, http, events):
    """Whether a stream opened, which `streams` closes."""
    response = streams.enter_context(http.stream("GET", events))
    return response.status_code == 200
