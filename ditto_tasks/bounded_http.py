"""An HTTP client for official client libraries: bounded answers, and no redirects.

A flooding server must not fill the worker's memory, and a redirect would take a credential elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

from httpx2 import AsyncByteStream, AsyncClient, Response

MAX_ANSWER_BYTES: Final = 8 * 2**20  # twice the largest message that the queues carry
MAX_REFUSAL_BYTES: Final = 65_536  # of an answer that is an error, whose text nobody is shown
Refuse = Callable[[str], Exception]  # from what is wrong with an answer to the error of its reader


def bounded_client(refuse: Refuse) -> AsyncClient:
    """A client for one event loop, without a time of its own; whoever makes it closes it."""
    # what is not compressed can't unfold into more than what was counted
    headers = {"Accept-Encoding": "identity"}
    hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(_bound, refuse)]}
    return AsyncClient(headers=headers, event_hooks=hooks, follow_redirects=False, timeout=None)


async def _bound(refuse: Refuse, response: Response) -> None:
    if isinstance(response.stream, AsyncByteStream):
        response.stream = _BoundedStream(response, response.stream, refuse)


class _BoundedStream(AsyncByteStream):
    """A body up to its bound: a longer refusal is cut, any other answer is refused."""

    def __init__(self, response: Response, body: AsyncByteStream, refuse: Refuse) -> None:
        self._body = body
        self._refuse = refuse
        self._is_refusal = response.is_error
        self._is_compressed = response.headers.get("content-encoding", "identity") != "identity"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:
            raise self._refuse("compressed against our wish")
        left = MAX_REFUSAL_BYTES if self._is_refusal else MAX_ANSWER_BYTES
        async for chunk in self._body:
            left -= len(chunk)
            if left < 0 and self._is_refusal:
                return
            if left < 0:
                raise self._refuse("too large")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
