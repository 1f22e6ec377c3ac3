"""A node's events as an iterator, while the node runs on a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from ditto_tasks.infer.base import Emit
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import CancelToken


def streamed(run: Callable[[Emit], object], token: CancelToken) -> Iterator[JsonObject]:
    """Yield what ``run`` emits, up to its result; who stops listening cancels the call."""
    events: SimpleQueue[JsonObject | None] = SimpleQueue()

    def work() -> None:
        try:
            run(events.put)
        finally:
            events.put(None)

    thread = threading.Thread(target=work, name="ditto-stream", daemon=True)
    thread.start()
    ended = False
    try:
        while (event := events.get()) is not None:
            yield event
        ended = True
    finally:
        if not ended:
            token.cancel()
        thread.join()
