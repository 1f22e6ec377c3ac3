"""The subscription of one event loop against a real server."""

import asyncio

import redis
from support.loops import one_turn
from support.polling import eventually

from ditto_tasks.client.hub import ResultHub
from ditto_tasks.embedded import EmbeddedServer

RESULT_DB = 1
ROUNDS = 200  # without its check, about one close in four never ended
CLOSE_S = 10.0
STEPS = 20  # of the loop: by then a command is sent


def test_closing_ends_whatever_the_hub_is_doing(server: EmbeddedServer) -> None:
    """A hub that is closed just after a result was heard ends, also in the middle of a look at the server."""
    results = redis.Redis.from_url(server.redis_url(RESULT_DB))

    def publish(key: str) -> None:
        with results.pipeline() as both:
            both.set(key, b"end", ex=60).publish(key, b"end").execute()

    async def main() -> None:
        for number in range(ROUNDS):
            key = f"result-{number}"
            hub = ResultHub(
                server.url(RESULT_DB), str, lambda data: data if isinstance(data, bytes) else None
            )
            waiting = asyncio.ensure_future(hub.wait(key))
            await asyncio.to_thread(publish, key)
            assert await waiting == b"end"
            closing = asyncio.ensure_future(hub.close())
            assert closing in (await asyncio.wait([closing], timeout=CLOSE_S))[0], f"round {number}"

    asyncio.run(main())
    results.close()


def test_a_wait_that_is_cancelled_at_any_moment_ends(server: EmbeddedServer) -> None:
    """However far its subscription has come: `asyncio.wait_for` of Python 3.11 may lose a cancellation."""
    results = redis.Redis.from_url(server.redis_url(RESULT_DB))

    async def main() -> None:
        hub = ResultHub(server.url(RESULT_DB), str, lambda _: None)
        kept = asyncio.ensure_future(hub.wait("kept"))
        for steps in range(STEPS):
            await asyncio.to_thread(eventually, lambda: results.pubsub_channels("kept"))
            waiting = asyncio.ensure_future(hub.wait(f"given up after {steps}"))
            for _ in range(steps):
                await one_turn()
            waiting.cancel()
            await asyncio.wait([waiting], timeout=CLOSE_S)
            assert waiting.cancelled(), f"after {steps} steps of the loop"
        await hub.close()
        assert kept.cancelled()

    asyncio.run(main())
    results.close()
