"""Tasks over HTTP: answers, events, cancellation and owners, on a real server with real workers."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from uuid import uuid4

import pytest
import redis
from support.deployments import deployment
from support.polling import eventually
from support.web import ANN, BOB, application, browsing, server_sent, serving

from ditto_tasks.client import Ditto
from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.opening import open_store
from ditto_tasks.web import service

WAIT_S = 30.0
ITEMS = [
    {"id": "train", "content": "The night train to Kyoto leaves at nine."},
    {"id": "rain", "content": "It rains in Oslo."},
]
QUESTION = "When does the night train to Kyoto leave?"


@pytest.fixture(scope="module")
def running():
    queues = ("ditto.ctx", "ditto.context", "ditto.memory", "ditto.infer")
    with deployment() as deployed, deployed.worker(*queues):
        yield deployed


@pytest.fixture(scope="module")
def url(running):
    with serving(application(running.settings)) as address:
        yield address


@pytest.fixture
def ann(url):
    with browsing(url, ANN) as http:
        yield http


@pytest.fixture
def bob(url):
    with browsing(url, BOB) as http:
        yield http


@pytest.fixture
def quiet():
    """A deployment in which nobody works, and its application."""
    with (
        deployment("runtime: {shards: {maxDepth: 2}}") as deployed,
        serving(application(deployed.settings, wait_s=0.2)) as address,
        browsing(address, ANN) as http,
    ):
        yield deployed, http


def ask(http, **more):
    answer = http.post(f"/sessions/{uuid4()}/answer", json={"question": QUESTION, "init": ITEMS, **more})
    assert answer.status_code == 202, answer.text
    return answer


def ended(http, task_id):
    return eventually(
        lambda: (state := http.get(f"/tasks/{task_id}").json())["status"] != "running" and state, WAIT_S
    )


def heard(http, task_id, headers=None):
    with http.stream("GET", f"/tasks/{task_id}/events", headers=headers or {}) as response:
        assert response.status_code == 200
        return list(server_sent(response))


def said(events):
    """What was said; two events of one millisecond may change places."""
    return sorted((event["event"], event["data"]) for event in events)


def test_an_answer_is_followed_live_to_its_end(ann):
    """The stream tells of each step and ends with the task's state, which holds the answer."""
    accepted = ask(ann)
    events = heard(ann, accepted.json()["id"])
    steps = [json.loads(event["data"])["step"] for event in events if event["event"] == "step"]
    state = json.loads(events[-1]["data"])
    assert accepted.headers["Location"] == f"/api/tasks/{accepted.json()['id']}"
    assert {"load", "search-0", "update", "select", "sample", "turn"} <= set(steps)
    assert (events[-1]["event"], state["status"]) == ("end", "success")
    assert "nine" in state["result"]["message"]["content"]
    assert ann.get(f"/tasks/{state['id']}").json() == state


def test_a_reader_goes_on_after_the_last_event_that_it_heard(ann):
    """With Last-Event-ID the stream repeats nothing and leaves out nothing, at every place."""
    task_id = ask(ann).json()["id"]
    events = heard(ann, task_id)
    for place, event in enumerate(events[:-1]):
        rest = heard(ann, task_id, {"Last-Event-ID": event["id"]})
        assert said(rest) == said(events[place + 1 :])


@pytest.mark.parametrize("value", ["x", "1-1", "0_0_0", "$_$", "1-1_-"])
def test_an_event_id_of_another_kind_is_refused(ann, value):
    """What is no id of an event is 422, and never reaches the server."""
    task_id = ask(ann).json()["id"]
    answer = ann.get(f"/tasks/{task_id}/events", headers={"Last-Event-ID": value})
    assert answer.status_code == 422
    assert answer.json()["error"]["path"] == "Last-Event-ID"


def test_a_task_of_another_tenant_does_not_exist(ann, bob):
    """Reading, following and cancelling it are 404, in the same words as for one that never was."""
    task_id = ask(ann).json()["id"]
    for path in (f"/tasks/{task_id}", f"/tasks/{task_id}.sample", f"/tasks/{uuid4()}"):
        answers = [bob.get(path), bob.get(f"{path}/events"), bob.delete(path)]
        assert [answer.status_code for answer in answers] == [404] * 3
        assert {answer.text for answer in answers} == {
            '{"error":{"code":"NOT_FOUND","message":"there is no such task"}}'
        }
    assert ended(ann, task_id)["status"] == "success"


def test_a_task_that_no_tenant_sent_is_nobodys(ann, running):
    """A call outside of the web application, without a tenant's session, is 404 for all."""
    with Ditto(running.settings) as client:
        pending = client.context.load(scope={"sessionId": str(uuid4())}, sources=ITEMS)
        pending.get(WAIT_S)
    assert ann.get(f"/tasks/{pending.id}").status_code == 404


def test_a_failed_task_says_why(ann):
    """A question to a session without a context ends as failed with CONTEXT_NOT_FOUND."""
    asked = ann.post(f"/sessions/{uuid4()}/answer", json={"question": QUESTION})
    state = ended(ann, asked.json()["id"])
    assert (state["status"], state["error"]["code"]) == ("failed", "CONTEXT_NOT_FOUND")


def test_a_caller_need_not_wait(ann):
    """`Prefer: respond-async` answers 202 at once, and the task's address shows the same result."""
    path = f"/sessions/{uuid4()}/context/load"
    answer = ann.post(path, json={"sources": ITEMS}, headers={"Prefer": "respond-async"})
    assert (answer.status_code, answer.json()["status"]) == (202, "running")
    state = ended(ann, answer.json()["id"])
    assert (state["status"], state["result"]["items"]) == ("success", 2)
    assert ":" not in state["result"]["scope"]["sessionId"]


def test_a_tenant_searches_its_own_memories_only(ann, bob, running):
    """Each tenant's answer quotes the memory of its own namespace, and knows nothing of the other's."""
    for tenant, hour in (("ann", "seven"), ("bob", "eight")):
        with closing(open_store(running.settings)) as store:
            bus = {"content": f"The bus to Nara leaves at {hour}."}
            written = MemoryNodes(store.within(tenant)).write({"memories": [bus]})
            assert written.status == "success"
    for http, hour, other in ((ann, "seven", "eight"), (bob, "eight", "seven")):
        body = {"question": "When does the bus to Nara leave?", "create": True}
        state = ended(http, http.post(f"/sessions/{uuid4()}/answer", json=body).json()["id"])
        assert hour in state["result"]["message"]["content"]
        assert other not in json.dumps(state)


def test_a_cancelled_answer_ends_as_cancelled(quiet):
    """DELETE ends a pipeline that is not at work, and its stream says so."""
    _, http = quiet
    task_id = ask(http).json()["id"]
    cancelled = http.delete(f"/tasks/{task_id}")
    assert cancelled.status_code == 202
    assert ended(http, task_id)["status"] == "cancelled"
    assert json.loads(heard(http, task_id)[-1]["data"])["error"]["code"] == "CANCELLED"


def test_a_cancelled_call_is_marked_for_its_worker(quiet):
    """DELETE of a single call leaves the mark that its worker looks for."""
    deployed, http = quiet
    answer = http.post(f"/sessions/{uuid4()}/context/load", json={"sources": ITEMS})
    assert answer.status_code == 202
    assert http.delete(f"/tasks/{answer.json()['id']}").json()["status"] == "running"
    with redis.Redis.from_url(deployed.server.redis_url(0)) as broker:
        assert broker.get(f"ditto:default:cancel:{answer.json()['id']}") == b"1"


def test_a_full_shard_is_429(quiet):
    """A session whose shard is full is refused with Retry-After, for calls and for answers."""
    _, http = quiet
    path = f"/sessions/{uuid4()}"
    sent = {"json": {"sources": ITEMS}, "headers": {"Prefer": "respond-async"}}
    assert [http.post(f"{path}/context/load", **sent).status_code for _ in range(2)] == [202] * 2
    for answer in (
        http.post(f"{path}/context/load", **sent),
        http.post(f"{path}/answer", json={"question": QUESTION}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "QUEUE_FULL")
        assert int(answer.headers["Retry-After"]) > 0


def test_servers_that_are_away_are_503(quiet):
    """Without its server every route answers 503 with Retry-After, and no address of it."""
    deployed, http = quiet
    task_id = ask(http).json()["id"]
    deployed.server.stop()
    try:
        for answer in (
            http.post(f"/sessions/{uuid4()}/context/load", json={"sources": ITEMS}),
            http.post(f"/sessions/{uuid4()}/answer", json={"question": QUESTION}),
            http.get(f"/tasks/{task_id}"),
            http.get(f"/tasks/{task_id}/events"),
            http.delete(f"/tasks/{task_id}"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "BROKER_UNAVAILABLE")
            assert int(answer.headers["Retry-After"]) > 0
            assert str(deployed.server.socket_path.parent) not in answer.text
    finally:
        deployed.server.start()


def test_a_call_that_was_refused_for_lack_of_an_answer_is_not_sent_later(quiet, monkeypatch):
    """With a server that hangs, calls are 503 in time; those still waiting for their turn are never sent."""
    monkeypatch.setattr(service, "PUBLISH_S", 1.0)
    deployed, http = quiet
    http.post(f"/sessions/{uuid4()}/context/load", json={"sources": ITEMS})
    sessions = [str(uuid4()) for _ in range(3)]
    os.kill(deployed.server.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(len(sessions)) as threads:
            answers = list(threads.map(lambda session: load(http, session), sessions))
    finally:
        os.kill(deployed.server.pid, signal.SIGCONT)
    assert [answer.status_code for answer in answers] == [503] * 3
    assert http.get(f"/tasks/{uuid4()}").status_code == 404  # its turn came after theirs
    with redis.Redis.from_url(deployed.server.redis_url(0)) as broker:
        assert waiting(broker) <= 2  # the first call of all, and the one that was being sent


def test_a_reader_who_leaves_holds_no_connection(quiet):
    """The broker's connection of a stream is closed soon after its reader went away."""
    deployed, http = quiet
    task_id = ask(http).json()["id"]
    with redis.Redis.from_url(deployed.server.redis_url(0)) as broker:
        with http.stream("GET", f"/tasks/{task_id}/events"):
            eventually(lambda: readers(broker) == 1, WAIT_S)
        eventually(lambda: readers(broker) == 0, WAIT_S)


def test_a_stream_ends_when_its_server_goes_away(quiet):
    """Without `end`, so that the reader comes again; nothing of the error reaches it."""
    deployed, http = quiet
    task_id = ask(http).json()["id"]
    with (
        redis.Redis.from_url(deployed.server.redis_url(0)) as broker,
        http.stream("GET", f"/tasks/{task_id}/events") as response,
    ):
        eventually(lambda: readers(broker) == 1, WAIT_S)
        deployed.server.stop()
        assert list(server_sent(response)) == []
    deployed.server.start()


def readers(broker):
    return sum(1 for client in broker.client_list() if client["cmd"] == "xread")


def load(http, session):
    return http.post(f"/sessions/{session}/context/load", json={"sources": ITEMS})


def waiting(broker):
    return sum(broker.llen(key) for key in broker.scan_iter("ditto.ctx.*"))
