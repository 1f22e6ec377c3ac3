"""Tasks that are at work while `ditto erase` runs leave nothing behind, and their callers are told."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
import redis
from celery import chain, chord
from support import stubborn_extension
from support.deployments import Deployment, deployment
from support.erasures import erase, holding
from support.polling import eventually
from support.stubborn_extension import let_go
from support.workers import BROKER_DB

from ditto_tasks.client.sync import Ditto, Pending
from ditto_tasks.errors import ContextError

WAIT_S = 40.0
FREE = "free"  # a word for which nothing waits
MODEL = {"provider": "stubborn", "model": "stubborn"}

Start = Callable[[Ditto, str, str], Pending[object]]


@pytest.fixture(scope="module")
def running() -> Iterator[Deployment]:
    """A deployment whose worker has work that waits and heeds no cancel."""
    more = {
        "DITTO_EXTENSIONS": stubborn_extension.NAME,
        "DITTO_SHARED_SANDBOX_ALLOW_TOOLS": ",".join(stubborn_extension.TOOLS),
    }
    with deployment(more=more) as deployed, deployed.worker():
        yield deployed


@pytest.fixture(scope="module")
def client(running: Deployment) -> Iterator[Ditto]:
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def broker(running: Deployment) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(running.server.redis_url(BROKER_DB)) as opened:
        let_go(opened, FREE)
        yield opened


def sample(client: Ditto, session: str, word: str) -> Pending[object]:
    """A model's answer, as a tenant's call."""
    asked = {"messages": [{"role": "user", "content": word}], "model": MODEL}
    return client.invoke("INFER.REASONING.SAMPLE", asked, ditto={"tenant": session.split(":")[0]})


def tool(client: Ditto, session: str, word: str) -> Pending[object]:
    """A tool's call."""
    asked = {"call": {"id": "1", "name": "say", "arguments": {"word": word}}}
    return client.invoke("INTERACTION.ACT.TOOL", asked, ditto={"tenant": session.split(":")[0]})


def output(client: Ditto, session: str, word: str) -> Pending[object]:
    """An output to the stream."""
    asked = {"deliveryId": "d", "message": {"role": "assistant", "content": word}}
    return client.invoke("INTERACTION.OUTPUT", asked, ditto={"tenant": session.split(":")[0]})


def load(client: Ditto, session: str, word: str) -> Pending[object]:
    """A context that is created when its reference is resolved."""
    wire = {"scope": {"sessionId": session}, "sources": [{"uri": f"wait:{word}"}], "resolveReferences": True}
    return client.invoke("CONTEXT.LOAD", wire, ditto={"reply": "context"})


def search(client: Ditto, session: str, word: str) -> Pending[object]:
    """An answering pipeline at its search, a part of a chord."""
    return client.answer({"sessionId": session}, word, create=True, searches=[{"node": "MEMORY.SEARCH"}])


def answer(client: Ditto, session: str, word: str) -> Pending[object]:
    """An answering pipeline at its model, with all that it stores after."""
    scope, fast = {"sessionId": session}, {"input": {"query": FREE}}
    return client.answer(
        scope, word, create=True, searches=[fast], model=MODEL, store_turn=True, remember=True
    )


def react(client: Ditto, session: str, word: str) -> Pending[object]:
    """An agent's flow at its model."""
    asked = [{"role": "user", "content": word}]
    return client.react(messages=asked, actions=[], model=MODEL, scope={"sessionId": session})


def summarize(client: Ditto, session: str, word: str) -> Pending[object]:
    """A summary of a session at its model."""
    item = {"id": "i", "content": f"notes of {word}"}
    client.context.load(scope={"sessionId": session}, sources=[item]).get(WAIT_S)
    return client.summarize(scope={"sessionId": session}, model=MODEL, ids=["i"], max_tokens=100)


OF_SESSIONS = [load, search, answer, react, summarize]  # the others name a tenant only
EVERY = [sample, tool, output, *OF_SESSIONS]


@pytest.mark.parametrize("start", EVERY, ids=lambda each: each.__name__)
def test_what_is_at_work_leaves_nothing(
    running: Deployment, client: Ditto, broker: "redis.Redis", start: Start
) -> None:
    """No result, event, record, effect, output, context or memory is stored; its caller hears ERASED."""
    tenant, word = f"t{uuid4().hex}", f"canary{uuid4().hex}"
    pending = start(client, f"{tenant}:s", word)
    eventually(lambda: broker.exists(f"test:{word}:begun"), WAIT_S)
    erase(running, "--tenant", tenant)
    let_go(broker, word)
    with pytest.raises(ContextError, match="ERASED"):
        pending.get(WAIT_S)
    eventually(lambda: is_idle(client), WAIT_S)
    broker.delete(f"test:{word}:begun", f"test:{word}:go")
    assert holding(running.server, word) == []
    again = erase(running, "--tenant", tenant)
    assert {kind: counts for kind, counts in again.items() if any(counts)} == {}
    with pytest.raises(ContextError, match="ERASED"):
        pending.get(WAIT_S)


@pytest.mark.parametrize("start", EVERY, ids=lambda each: each.__name__)
def test_what_has_ended_is_erased(
    running: Deployment, client: Ditto, broker: "redis.Redis", start: Start
) -> None:
    """Of a call, a pipeline or a flow that has ended nothing is left; another tenant's keeps its result."""
    tenant, other = f"t{uuid4().hex}", f"t{uuid4().hex}"
    word, others = f"canary{uuid4().hex}", f"canary{uuid4().hex}"
    let_go(broker, word)
    let_go(broker, others)
    kept = start(client, f"{other}:s", others)
    pending = start(client, f"{tenant}:s", word)
    pending.get(WAIT_S)
    result = kept.get(WAIT_S)
    eventually(lambda: is_idle(client), WAIT_S)
    assert erase(running, "--session", f"{tenant}:s")["results"][1] == 0
    counts = erase(running, "--tenant", tenant)
    assert counts["results"] == (0, 0) if start in OF_SESSIONS else counts["results"][0] > 0
    broker.delete(f"test:{word}:begun", f"test:{word}:go")
    assert holding(running.server, word) == []
    with pytest.raises(ContextError, match="ERASED"):
        pending.get(WAIT_S)
    assert kept.get(WAIT_S) == result


def is_idle(client: Ditto) -> bool:
    """Whether no worker has a task."""
    asked = client.app.control.inspect(timeout=5.0, limit=1)
    at_work, reserved = asked.active(), asked.reserved()
    return bool(at_work) and not any(at_work.values()) and not any((reserved or {"": ["?"]}).values())


def test_a_part_of_a_chord_is_found_later(running: Deployment, client: Ditto, broker: "redis.Redis") -> None:
    """A chord whose first part has ended and whose second is at work keeps no part after the erasure."""
    tenant, first, second = f"t{uuid4().hex}", f"canary{uuid4().hex}", f"canary{uuid4().hex}"
    app, scope = client.app, {"sessionId": f"{tenant}:s"}
    parts = [
        app.signature("MEMORY.SEARCH", kwargs={"query": word}, immutable=True) for word in (first, second)
    ]
    begin = app.signature("CONTEXT.LOAD", kwargs={"scope": scope, "sources": []})
    body = app.signature("MEMORY.GET", kwargs={"ids": ["x"]}, immutable=True)
    let_go(broker, first)
    chain(begin, chord(parts, body, app=app), app=app).apply_async()
    eventually(lambda: broker.exists(f"test:{second}:begun"), WAIT_S)
    parted = [key for key in holding(running.server, first) if "taskset" in key]
    eventually(lambda: any("taskset" in key for key in holding(running.server, first)), WAIT_S)
    assert erase(running, "--tenant", tenant)["results"][0] > len(parted)
    let_go(broker, second)
    eventually(lambda: is_idle(client), WAIT_S)
    for word in (first, second):
        broker.delete(f"test:{word}:begun", f"test:{word}:go")
        assert holding(running.server, word) == []
