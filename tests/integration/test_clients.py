"""Both clients against a real worker: nothing missed, nothing blocked, order kept."""

import asyncio
import gc
import threading
from uuid import uuid4

import pytest
import redis
from support.deployments import deployment
from support.polling import eventually

from ditto_tasks.client import AsyncDitto, Ditto, Receipt
from ditto_tasks.context import Context
from ditto_tasks.errors import ContextError, MemoryError, NodeInputError
from ditto_tasks.models import Scope
from ditto_tasks.settings import load_settings
from ditto_tasks.state.encoding import state_key

WAIT_S = 30.0
ITEM = {"id": "a", "content": "text"}


@pytest.fixture(scope="module")
def running():
    with deployment() as deployed, deployed.worker("ditto.ctx", "ditto.context", "ditto.memory"):
        yield deployed


@pytest.fixture
def client(running):
    with Ditto(running.settings) as opened:
        yield opened


@pytest.fixture
def scope():
    return {"sessionId": str(uuid4())}


@pytest.fixture
def results(running):
    with redis.Redis.from_url(running.server.redis_url(1)) as opened:
        yield opened


def subscribers(results):
    """Connections that are subscribed to results; workers' control connections are on another database."""
    return [each for each in results.client_list() if int(each["sub"]) > 0 and each["db"] == "1"]


def cut(results):
    for each in subscribers(results):
        results.client_kill_filter(_id=each["id"])


def test_a_closed_client_holds_no_connection_to_results():
    """Whichever of its threads had asked for them."""

    def ask(client):
        pending = client.context.load(scope={"sessionId": "s"}, sources=[ITEM])
        with pytest.raises(TimeoutError):  # nobody works here
            pending.get(0.1)

    def readers(server):
        return [each["id"] for each in server.client_list() if each["db"] == "1"]

    with deployment() as quiet, redis.Redis.from_url(quiet.server.redis_url(0)) as server:
        gc.disable()  # what is left to the collector is not closed
        try:
            with Ditto(quiet.settings) as client:
                other = threading.Thread(target=ask, args=[client])
                other.start()
                other.join(WAIT_S)
                ask(client)
                assert len(readers(server)) == 2
            eventually(lambda: readers(server) == [], WAIT_S)
        finally:
            gc.enable()


def test_calls_return_typed_values(client, scope):
    """A mutation answers a Receipt, a read a Context, and snake_case names reach the wire as camelCase."""
    receipt = client.context.load(scope=scope, sources=[ITEM]).get(WAIT_S)
    assert isinstance(receipt, Receipt)
    assert receipt.items == 1
    removed = client.context.update(scope=scope, remove_ids=["a"], expected_version=receipt.version)
    assert removed.get(WAIT_S).items == 0
    assert client.context.load(scope=scope).get(WAIT_S) == Context(items=())


def test_options_are_keywords_and_decide_what_is_replied(client, scope):
    """A call says by `reply` what it gives; a receipt of an explained selection has the explanation."""
    created = client.context.update(scope=scope, add=[ITEM], on_missing="create", reply="context").get(WAIT_S)
    assert isinstance(created, Context)
    assert client.context.update(scope=scope, remove_ids=["a"], reply="none").get(WAIT_S) is None
    named = client.context.update(scope=scope, add=[ITEM], operation_id="o").get(WAIT_S)
    assert client.context.update(scope=scope, add=[ITEM], operation_id="o").get(WAIT_S).replayed
    chosen = client.context.select(scope=scope, purpose="infer", reply="receipt", explain=True).get(WAIT_S)
    assert (chosen.version, chosen.explanation["entries"][0]["id"]) == (named.version, "a")


def test_a_repeated_call_whose_state_is_gone_has_no_context_to_give(client, running, scope):
    """It was done, and what it made is nowhere: an error instead of a value that its type does not have."""
    client.context.load(scope=scope, sources=[]).get(WAIT_S)
    call = {"scope": scope, "add": [ITEM], "operation_id": "o", "reply": "context"}
    assert client.context.update(**call).get(WAIT_S).items[0].id == "a"
    with redis.Redis.from_url(running.server.redis_url(2)) as states:
        assert states.delete(state_key(Scope.parse(scope))) == 1
    with pytest.raises(ContextError, match="CONTEXT_NOT_FOUND: the call had been answered before"):
        client.context.update(**call).get(WAIT_S)


def test_a_node_result_gives_its_output_as_a_model(client):
    """What was written is found again, as records."""
    [written] = client.memory.write(memories=[{"content": str(uuid4())}]).get(WAIT_S).value()
    assert client.memory.get(ids=[written.id]).get(WAIT_S).value() == (written,)
    missing = client.memory.update(memories=[{"id": "nobody", "content": 1}]).get(WAIT_S)
    with pytest.raises(MemoryError, match="NOT_FOUND"):
        missing.value()


def test_errors_come_back_typed_with_details(client, scope):
    """A conflict raises ContextError with the version that stands now."""
    version = client.context.load(scope=scope, sources=[ITEM]).get(WAIT_S).version
    with pytest.raises(ContextError) as caught:
        client.context.update(scope=scope, add=[], expected_version="stale").get(WAIT_S)
    assert caught.value.code == "STATE_CONFLICT"
    assert caught.value.details == {"current_version": version}


def test_invoke_takes_any_node_and_returns_wire(client, scope):
    """The generic call answers JSON as it is on the wire."""
    client.context.load(scope=scope, sources=[ITEM]).get(WAIT_S)
    assert client.invoke("CONTEXT.LOAD", {"scope": scope}).get(WAIT_S) == {"items": [ITEM]}


def test_a_result_that_came_before_anyone_waited_is_not_missed(client, results, scope):
    """Waiting begins long after the result was stored, and returns it."""
    pending = client.context.load(scope=scope, sources=[ITEM])
    eventually(lambda: b"SUCCESS" in (results.get(f"celery-task-meta-{pending.id}") or b""), WAIT_S)
    assert pending.get(1.0).items == 1


def test_publishing_subscribes_to_nothing(client, results, scope):
    """After a chord and single calls were published no connection of the result server is subscribed."""
    for _ in range(3):
        client.context.load(scope=scope, sources=[ITEM]).get(WAIT_S)
    client.answer(scope, "text?", searches=[{}, {}])
    assert subscribers(results) == []


def test_a_wait_ends_after_its_timeout(client, running):
    """TimeoutError is raised in time for a task that nobody runs."""
    pending = client.infer.sample(messages=[{"role": "user", "content": "hi"}])
    with pytest.raises(TimeoutError):
        pending.get(0.3)


def test_a_server_that_is_away_ends_a_wait_in_time(running):
    """With nobody listening at the address the wait is a TimeoutError, and names no address."""
    gone = {**running.variables, "DITTO_RESULT_BACKEND_URL": "redis://127.0.0.1:1/0"}
    with Ditto(load_settings(None, gone)) as client, pytest.raises(TimeoutError) as caught:
        client.result("id").get(0.5)
    assert "127.0.0.1" not in str(caught.value)


def test_a_wait_survives_a_lost_connection(client, results, scope):
    """The subscription is killed while it waits, and the result still arrives."""
    pending = client.result(str(uuid4()))
    got = []
    waiter = threading.Thread(target=lambda: got.append(pending.get(WAIT_S)))
    waiter.start()
    eventually(lambda: subscribers(results), WAIT_S)
    cut(results)
    client.app.backend.store_result(pending.id, {"late": True}, "SUCCESS")
    waiter.join(WAIT_S)
    assert got == [{"late": True}]


def test_wrong_input_of_a_pipeline_is_refused_where_it_is_awaited(running, scope):
    """The async client raises the publish error at the await, and goes on working."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            with pytest.raises(NodeInputError):
                await client.answer(scope, "q", searches=[])
            return await client.context.load(scope=scope, sources=[ITEM])

    assert asyncio.run(main()).items == 1


def test_many_awaits_share_one_subscription(running, results, scope):
    """Three hundred calls complete in one loop over one subscribed connection."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            await client.context.load(scope=scope, sources=[ITEM])
            calls = [asyncio.ensure_future(client.context.load(scope=scope).get()) for _ in range(300)]
            most = 0
            while not all(call.done() for call in calls):
                most = max(most, len(await asyncio.to_thread(subscribers, results)))
            return most, await asyncio.gather(*calls)

    most, contexts = asyncio.run(main())
    assert most <= 1
    assert len(contexts) == 300


def test_async_calls_are_published_in_the_order_in_which_they_were_made(running, scope):
    """Without awaiting in between, each UPDATE finds what the ones before it added."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            client.context.load(scope=scope, sources=[ITEM])
            for number in range(20):
                last = client.context.update(scope=scope, add=[{"id": str(number), "content": number}])
            await last
            return await client.context.load(scope=scope)

    assert [item.id for item in asyncio.run(main()).items] == ["a", *map(str, range(20))]


def test_one_async_client_serves_several_loops(running, scope):
    """A second event loop gets a subscription of its own, also when the first was not closed."""
    client = AsyncDitto(running.settings)

    async def ask():
        return await client.context.load(scope=scope, sources=[ITEM])

    async def ask_and_close():
        receipt = await ask()
        await client.close()
        return receipt

    assert asyncio.run(ask()).items == 1
    assert asyncio.run(ask_and_close()).items == 1


def test_an_await_survives_a_lost_connection(running, results):
    """The loop's subscription is killed while it waits, and the result still arrives."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            pending = client.result(str(uuid4()))
            waiting = asyncio.ensure_future(pending.get(WAIT_S))
            while not await asyncio.to_thread(subscribers, results):
                assert not waiting.done()
            await asyncio.to_thread(cut, results)
            app = client.blocking.app
            await client.in_order(lambda: app.backend.store_result(pending.id, {"late": True}, "SUCCESS"))
            return await waiting

    assert asyncio.run(main()) == {"late": True}


def test_async_events_end_with_the_task(running, scope):
    """An unread pipeline's events can be followed to its end, where the iteration stops."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            pending = client.answer(scope, "text?")
            told = [event async for event in pending.events()]
            with pytest.raises(ContextError):
                await pending
            return told

    assert asyncio.run(main())[-1].data == {"status": "failed"}


def test_an_await_times_out(running):
    """`get` with a timeout raises TimeoutError for a task that nobody runs."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            with pytest.raises(TimeoutError):
                await client.infer.sample(messages=[{"role": "user", "content": "hi"}]).get(0.3)

    asyncio.run(main())


def test_the_loop_is_not_blocked_by_publishing(running, scope):
    """Every call is sent from the one publishing thread, and none from the loop's."""

    async def main():
        async with AsyncDitto(running.settings) as client:
            threads = set()
            send = client.blocking.send

            def noted(call):
                threads.add(threading.current_thread().name)
                return send(call)

            client.blocking.send = noted
            await asyncio.gather(*(client.context.load(scope=scope, sources=[ITEM]).get() for _ in range(20)))
            return threads

    assert {name.rsplit("_", 1)[0] for name in asyncio.run(main())} == {"ditto-publisher"}
