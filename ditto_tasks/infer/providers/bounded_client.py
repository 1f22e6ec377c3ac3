"""The HTTP client that the official clients send with: bounded answers, and no redirects.

A flooding server must not fill the worker's memory, and a redirect would take the credential elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from httpx2 import AsyncByteStream, AsyncClient, Response

from ditto_tasks.errors import InferError

MAX_ANSWER_BYTES: Final = 8 * 2**20  # twice the largest message that the queues carry
MAX_REFUSAL_BYTES: Final = 65_536  # of an answer that is an error, whose text nobody is shown


def bounded_client() -> AsyncClient:
    """A client for one event loop; whoever makes it closes it."""
    # what is not compressed can't unfold into more than what was counted
    headers = {"Accept-Encoding": "identity"}
    return AsyncClient(headers=headers, event_hooks={"response": [_bound]}, follow_redirects=False)


async def _bound(response: Response) -> None:
    if isinstance(response.stream, AsyncByteStream):
        compressed = response.headers.get("content-encoding", "identity") != "identity"
        response.stream = _BoundedStream(
            response.stream, is_refusal=response.is_error, is_compressed=compressed
        )


class _BoundedStream(AsyncByteStream):
    """A body up to its bound: a longer refusal is cut, any other answer is refused."""

    def __init__(self, body: AsyncByteStream, *, is_refusal: bool, is_compressed: bool) -> None:
        self._body = body
        self._is_refusal = is_refusal
        self._is_compressed = is_compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:
            raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is compressed against our wish")
        left = MAX_REFUSAL_BYTES if self._is_refusal else MAX_ANSWER_BYTES
        async for chunk in self._body:
            left -= len(chunk)
            if left < 0 and self._is_refusal:
                return
            if left < 0:
                raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
