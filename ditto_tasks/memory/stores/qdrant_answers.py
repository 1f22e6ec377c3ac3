"""Answers of a Qdrant server, bounded: 16 MiB and 15 s each. What is larger is read in smaller parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar, cast

import httpx

TIMEOUT_S: Final = 15
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
SMALLER: Final = 4  # times, after an answer that was too large

FoundT = TypeVar("FoundT")


class AnswerTooLargeError(Exception):
    """An answer is over its bound; the rest of it was not read."""


class BoundedTransport(httpx.BaseTransport):
    """Sends as httpx does, and ends what is too large or takes too long, however steadily it comes."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"  # what is compressed unfolds without a bound
        ends_s = time.monotonic() + TIMEOUT_S
        answer = self._inner.handle_request(request)
        stream = _Bounded(cast("httpx.SyncByteStream", answer.stream), ends_s)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream)

    def close(self) -> None:
        self._inner.close()


class _Bounded(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, ends_s: float) -> None:
        self._stream = stream
        self._ends_s = ends_s

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise AnswerTooLargeError
            if time.monotonic() > self._ends_s:
                raise httpx.ReadTimeout("the answer did not end in time")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def is_too_large(error: BaseException) -> bool:
    """Whether an error of the client is about an answer that was too large."""
    return isinstance(getattr(error, "source", None), AnswerTooLargeError)


def in_parts(
    read: Callable[[Sequence[str]], Sequence[FoundT]], ids: Sequence[str], most: int
) -> Iterator[FoundT]:
    """All that is read of these ids, as many at once as an answer may hold."""
    at = 0
    while at < len(ids):
        part = ids[at : at + most]
        try:
            found = read(part)
        except Exception as error:
            if len(part) == 1 or not is_too_large(error):
                raise
            most = max(1, len(part) // SMALLER)
            continue
        yield from found
        at += len(part)
