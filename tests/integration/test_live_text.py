"""Words reach whoever follows a running task while the model still speaks: both clients, and over HTTP."""

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from support.flows import FlowDeployment, flow_deployment, says, wants
from support.provider_server import Reply, as_events, chat_chunk
from support.web import ANN, application, browsing, server_sent, serving

from ditto_tasks.client.aio import AsyncDitto
from ditto_tasks.client.protocol import Event
from ditto_tasks.client.sync import Ditto

WAIT_S = 60.0
ASKED = [{"role": "user", "content": "q"}]
NOTE = {"name": "upper", "inputSchema": {"type": "object"}}


@pytest.fixture(scope="module")
def running() -> Iterator[FlowDeployment]:
    with flow_deployment(memory=True) as deployed, deployed.worker():
        yield deployed


@pytest.fixture
def client(running: FlowDeployment) -> Iterator[Ditto]:
    with Ditto(running.settings) as opened:
        yield opened


def halting() -> Reply:
    """Two words, and then nothing: whoever hears them hears them while the model still speaks."""
    return as_events([chat_chunk({"content": part}) for part in ("he", "llo")], then="hang")


def until_heard(events: Iterator[Event], wanted: str) -> str:
    """The text up to the wanted one."""
    heard = ""
    for event in events:
        if event.type == "text_delta":
            heard += event.data["text"]  # type: ignore[index,call-overload]  # an object
        if heard == wanted:
            return heard
    return heard


def test_the_sync_client_hears_a_running_sample(client: Ditto, running: FlowDeployment) -> None:
    """The text is there before the task has ended, and a later reader misses nothing of it."""
    running.provider.then(halting())
    pending = client.infer.sample(messages=ASKED)
    assert until_heard(pending.events(), "hello") == "hello"
    with pytest.raises(TimeoutError):
        pending.get(0.1)
    assert until_heard(pending.events(), "hello") == "hello"
    pending.cancel()
    assert pending.get(WAIT_S).status == "cancelled"


def test_the_async_client_hears_a_running_sample(running: FlowDeployment) -> None:
    """As the sync one, and its iteration ends with the task: start, text, one result."""
    running.provider.then(halting())

    async def main() -> list[Event]:
        async with AsyncDitto(running.settings) as client:
            pending = client.infer.sample(messages=ASKED)
            told: list[Event] = []
            async for event in pending.events():
                told.append(event)
                if _said(told) == "hello":
                    await pending.cancel()
            return told

    told = asyncio.run(main())
    assert [told[0].type, told[-1].type] == ["start", "result"]
    assert [event.type for event in told].count("result") == 1
    assert told[-1].data["result"]["status"] == "cancelled"  # type: ignore[index,call-overload]  # an object


def _said(told: list[Event]) -> str:
    return "".join(event.data["text"] for event in told if event.type == "text_delta")  # type: ignore[index,call-overload,misc]  # objects


def test_a_trajectory_tells_its_steps(client: Ditto, running: FlowDeployment) -> None:
    """Each sample's text, then its step; the result comes last."""
    running.provider.then(says("thought"))
    pending = client.infer.trajectory(messages=ASKED, strategy={"name": "cot"})
    types = [event.type for event in pending.events()]
    assert types == ["start", "text_delta", "step", "text_delta", "step", "result"]


def test_a_run_of_react_is_heard_in_its_own_stream(client: Ditto, running: FlowDeployment) -> None:
    """What the model says in each of its samples, with the step's name, while the run goes on."""
    running.provider.then(wants(("1", "upper", {"text": "x"})), says("do", "ne"))
    pending = client.react(messages=ASKED, actions=[NOTE])
    assert pending.get(WAIT_S).stop_reason == "stop"
    told = list(pending.events())
    said = [(event.data["step"], event.data["text"]) for event in told if event.type == "text_delta"]  # type: ignore[index,call-overload]  # objects
    assert {step for step, _ in said} == {"sample-2"}
    assert "".join(text for _, text in said) == "done"
    running.provider.then(halting())
    live = client.react(messages=ASKED)
    assert until_heard(live.events(), "hello") == "hello"
    live.cancel()


def test_an_answer_is_heard_as_it_is_spoken(client: Ditto, running: FlowDeployment) -> None:
    """An answer's words are among the pipeline's events, and a reader goes on after any of these."""
    running.provider.then(halting())
    live = client.answer({"sessionId": "spoken"}, "q", create=True)
    told: list[Event] = []
    for event in live.events():
        told.append(event)
        if _said(told) == "hello":
            break
    assert told[-1].type == "text_delta", (told, live.get(1))
    first = next(at for at, event in enumerate(told) if event.type == "text_delta")
    assert until_heard(live.events(told[first].id), "llo") == _said(told[first + 1 :])
    live.cancel()


def test_a_browser_hears_a_running_flow(running: FlowDeployment) -> None:
    """Server-sent events bring the text while the model speaks; the reader then cancels the run."""
    running.provider.then(halting())
    heard: list[str] = []
    with serving(application(running.settings)) as url, browsing(url, ANN) as http:
        accepted = http.post("/sessions/s/flows/react", json={"messages": ASKED})
        assert accepted.status_code == 202, accepted.text
        task_id = accepted.json()["id"]
        with http.stream("GET", f"/tasks/{task_id}/events") as response:
            for event in server_sent(response):
                if event["event"] == "text_delta":
                    heard.append(json.loads(event["data"])["text"])
                if "".join(heard) == "hello" and heard:
                    heard.append(".")
                    threading.Thread(target=http.delete, args=(f"/tasks/{task_id}",)).start()
                last = event
    assert "".join(heard) == "hello."
    assert last["event"] == "end"
