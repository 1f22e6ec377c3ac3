"""What callers are told of a broker that is away, refuses them, or whose reply was lost: typed errors."""

import asyncio
import traceback
from collections.abc import Callable, Iterator

import pytest
from kombu.exceptions import OperationalError
from support.graphs import constant
from support.proxies import ReplyCutter, to_socket

from ditto_tasks import AsyncDitto, Ditto, default_settings
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import DittoError
from ditto_tasks.pipelines.graphs import Graph
from ditto_tasks.sending import BrokerError

SCOPE = {"sessionId": "acme:one"}
SECRET = "hunter2-secret"
AWAY = f"redis://someone:{SECRET}@127.0.0.1:1/0"
GRAPH = Graph("one", [constant("a")])
CALLS: dict[str, Callable[[Ditto], object]] = {
    "node": lambda client: client.memory.search(query="x"),
    "scoped node": lambda client: client.context.load(scope=SCOPE, sources=[]),
    "task": lambda client: client.app.send_task("MEMORY.SEARCH", kwargs={"query": "x"}),
    "answer": lambda client: client.answer(SCOPE, "x"),
    "flow": lambda client: client.rag(scope=SCOPE, query="x"),
    "graph": lambda client: client.run(GRAPH),
    "resume": lambda client: client.resume("run"),
    "outputs": lambda client: client.run_outputs("run"),
    "cancel": lambda client: client.result("task").cancel(),
    "events": lambda client: list(client.result("task").events()),
}


def settings_at(url: str) -> Ditto:
    return Ditto(default_settings({"DITTO_BROKER_URL": url, "DITTO_RESULT_BACKEND_URL": url}))


def refused(call: Callable[[], object]) -> BrokerError:
    """The typed error of a call; neither it nor its traceback shows the address."""
    with pytest.raises(BrokerError) as caught:
        call()
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value.args)
    assert SECRET not in shown
    assert "127.0.0.1" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def locked() -> Iterator[str]:
    """The address of a server that knows another password."""
    with (
        EmbeddedServer(extra_args=("--requirepass", "right")) as server,
        ReplyCutter(to_socket(server.socket_path)) as proxy,
    ):
        yield f"redis://:{SECRET}@127.0.0.1:{proxy.port}/0"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_broker_that_is_away_is_a_typed_error(call: Callable[[Ditto], object]) -> None:
    """Nothing was sent, and it says so; who catches kombu's error catches it, too."""
    with settings_at(AWAY) as client:
        error = refused(lambda: call(client))
    assert isinstance(error, DittoError)
    assert isinstance(error, OperationalError)
    assert (error.code, error.details) == ("BROKER_UNAVAILABLE", {"sent": "no"})
    assert "nothing was sent" in error.message


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_broker_that_refuses_the_password_is_a_typed_error(
    locked: str, call: Callable[[Ditto], object]
) -> None:
    """It is told apart from one that is away: to come again is of no use."""
    with settings_at(locked) as client:
        error = refused(lambda: call(client))
    assert (error.code, error.details) == ("BROKER_REFUSED", {"sent": "no"})


def test_event_loops_get_the_same_error() -> None:
    """Where the call is awaited."""

    async def call() -> None:
        async with AsyncDitto(default_settings({"DITTO_BROKER_URL": AWAY})) as client:
            for pending in (client.memory.search(query="x"), client.run(GRAPH), client.answer(SCOPE, "x")):
                with pytest.raises(BrokerError) as caught:
                    await pending.sent()
                assert caught.value.code == "BROKER_UNAVAILABLE"
            with pytest.raises(BrokerError):
                await client.result("task").cancel()

    asyncio.run(call())


@pytest.mark.parametrize("name", ["node", "scoped node", "graph"])
def test_a_lost_reply_leaves_open_whether_it_was_sent(name: str) -> None:
    """The server got the message and died before it answered: the caller is to repeat it."""
    server = EmbeddedServer().start()
    try:
        with ReplyCutter(to_socket(server.socket_path), then=server.kill) as proxy:
            with settings_at(f"redis://127.0.0.1:{proxy.port}/0") as client:
                client.memory.search(query="the connection stands")
                proxy.cut_reply_to(b"LPUSH" if name == "node" else b"EVAL")
                error = refused(lambda: CALLS[name](client))
            assert proxy.cuts == 1
    finally:
        server.stop()
    assert (error.code, error.details) == ("BROKER_OUTCOME_UNKNOWN", {"sent": "unknown"})
    assert "same operation id" in error.message
