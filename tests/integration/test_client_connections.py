"""What clients hold open: nothing after `close`, no more after many calls, and a forked child has its own."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import aclosing

import pytest
import redis
from support.deployments import Deployment, deployment
from support.forks import in_a_fork
from support.loops import one_turn
from support.polling import eventually

from ditto_tasks.client import AsyncDitto, Ditto
from ditto_tasks.client.hub import ResultHub

WAIT_S = 20.0
MANY = 40
RESULT_DB = 1


@pytest.fixture(scope="module")
def quiet() -> Iterator[Deployment]:
    """A deployment in which nobody works: results are stored by the tests."""
    with deployment() as running:
        yield running


@pytest.fixture
def inspector(quiet: Deployment) -> Iterator["redis.Redis"]:
    with redis.Redis.from_url(quiet.server.redis_url(RESULT_DB + 1)) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_left_to_the_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def of_results(inspector: "redis.Redis") -> list[str]:
    """The connections to the results' database, which nobody but clients has here."""
    return [each["id"] for each in inspector.client_list() if each["db"] == str(RESULT_DB)]


def streams(inspector: "redis.Redis") -> list[str]:
    """The connections that read events."""
    return [each["id"] for each in inspector.client_list() if each["cmd"] == "xread"]


def end(client: Ditto, task_id: str) -> str:
    client.app.backend.store_result(task_id, {"of": task_id}, "SUCCESS")
    return task_id


def test_a_blocking_client_holds_as_many_after_many_calls(
    quiet: Deployment, inspector: "redis.Redis"
) -> None:
    """A wait gives back what it took, whether its result was there, came or did not."""
    with Ditto(quiet.settings) as client:
        client.result(end(client, "first")).get(WAIT_S)
        before = of_results(inspector)
        for number in range(MANY):
            assert client.result(end(client, f"b{number}")).get(WAIT_S) == {"of": f"b{number}"}
            with pytest.raises(TimeoutError):
                client.result("never").get(0.001)
        assert len(of_results(inspector)) <= len(before)
    eventually(lambda: of_results(inspector) == [], WAIT_S)


def test_a_result_of_celery_connects_no_more_after_the_end(
    quiet: Deployment, inspector: "redis.Redis"
) -> None:
    """One that was waited for goes with the process, and would connect once more to unsubscribe."""
    client = Ditto(quiet.settings)
    result = client.app.AsyncResult("waited-for")
    with pytest.raises(Exception, match="timed out"):
        result.get(timeout=0.1)
    backend = client.app.backend
    client.close()
    eventually(lambda: of_results(inspector) == [], WAIT_S)
    backend.remove_pending_result(result)  # what its `__del__` does
    assert of_results(inspector) == []


def test_an_async_client_holds_none_when_it_is_closed(quiet: Deployment, inspector: "redis.Redis") -> None:
    """Not those of its subscription, of its publisher, nor of events whose reader left; the loop goes on."""

    async def left_early(client: AsyncDitto) -> None:
        async with aclosing(client.stream(["nobody"], "0", lambda: False)) as events:
            reading = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(eventually, lambda: streams(inspector), WAIT_S)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def main() -> None:
        client = AsyncDitto(quiet.settings)
        for number in range(MANY):
            await client.in_order(lambda number=number: end(client.blocking, f"a{number}"))  # type: ignore[misc]  # mypy can't infer it
            assert await client.result(f"a{number}") == {"of": f"a{number}"}
        assert len(of_results(inspector)) <= 3  # the subscription, the looks, and the publisher's
        await left_early(client)
        await asyncio.to_thread(eventually, lambda: not streams(inspector), WAIT_S)
        await client.close()
        await asyncio.to_thread(eventually, lambda: not of_results(inspector), WAIT_S)

    asyncio.run(main())


def test_the_publishing_thread_ends_with_its_client(quiet: Deployment) -> None:
    """An application that makes clients and closes them has no more threads than before."""

    def publishers() -> set[str]:
        return {each.name for each in threading.enumerate() if each.name.startswith("ditto-publisher")}

    async def main() -> None:
        async with AsyncDitto(quiet.settings) as client:
            await client.in_order(lambda: None)

    before = publishers()
    asyncio.run(main())
    eventually(lambda: publishers() <= before, WAIT_S)


@pytest.mark.parametrize("at_once", [True, False])
def test_closing_ends_what_is_still_awaited(
    quiet: Deployment, inspector: "redis.Redis", at_once: bool
) -> None:
    """Whoever waits is cancelled, instead of waiting for ever on a hub that hears nothing, or did not yet."""

    async def main() -> None:
        hub = ResultHub(quiet.server.url(RESULT_DB), str, lambda _: None)
        waiting = [asyncio.ensure_future(hub.wait("never")) for _ in range(3)]
        await one_turn()  # they wait now
        if not at_once:
            await asyncio.to_thread(eventually, lambda: inspector.pubsub_channels("never"), WAIT_S)
        await hub.close()
        done, _ = await asyncio.wait(waiting, timeout=WAIT_S)
        assert all(each in done and each.cancelled() for each in waiting)

    asyncio.run(main())


def test_what_nobody_awaits_any_more_is_not_subscribed_to(
    quiet: Deployment, inspector: "redis.Redis"
) -> None:
    """A loop that lives for long hears of the results that it awaits, also after its connection was lost."""

    def subscriber() -> str | None:
        return next((each["id"] for each in inspector.client_list() if int(each["sub"])), None)

    def is_another(lost: str | None) -> bool:
        return subscriber() not in (None, lost)

    def heard_of() -> set[bytes]:
        return {name for name in inspector.pubsub_channels() if name.startswith(b"celery-task-meta-")}

    async def main() -> None:
        async with AsyncDitto(quiet.settings) as client:
            kept = asyncio.ensure_future(client.result("kept").get())
            for number in range(MANY):
                with pytest.raises(TimeoutError):
                    await client.result(f"given-up-{number}").get(0.001)
            only = {b"celery-task-meta-kept"}
            await asyncio.to_thread(eventually, lambda: heard_of() == only, WAIT_S)
            lost = subscriber()
            inspector.client_kill_filter(_id=lost)
            await asyncio.to_thread(eventually, lambda: is_another(lost), WAIT_S)
            await asyncio.to_thread(eventually, heard_of, WAIT_S)
            assert heard_of() == only
            kept.cancel()

    asyncio.run(main())


def test_a_forked_child_of_an_async_client_has_its_own(quiet: Deployment, inspector: "redis.Redis") -> None:
    """Publishing and waiting go on in the child and in the parent, each on connections of its own."""
    client = AsyncDitto(quiet.settings)

    async def ask(task_id: str) -> None:
        async with asyncio.timeout(WAIT_S):
            await client.in_order(lambda: end(client.blocking, task_id))
            assert await client.result(task_id) == {"of": task_id}

    async def ask_and_close(task_id: str) -> None:
        await ask(task_id)
        await client.close()

    asyncio.run(ask("parent"))
    before = of_results(inspector)
    assert in_a_fork(lambda: asyncio.run(ask_and_close("child"))) == 0
    assert set(before) <= set(of_results(inspector))
    asyncio.run(ask_and_close("parent-again"))
    eventually(lambda: of_results(inspector) == [], WAIT_S)


def test_a_child_that_closes_leaves_the_parents_connections(
    quiet: Deployment, inspector: "redis.Redis"
) -> None:
    """What the child closes is its own: it has opened none."""
    with Ditto(quiet.settings) as client:
        client.result(end(client, "before")).get(WAIT_S)
        before = of_results(inspector)
        assert in_a_fork(client.close) == 0
        assert before
        assert of_results(inspector) == before
