"""Small HTTP requests of tools and sinks: bounded time and size, no redirects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit
from urllib.request import Request

from ditto_tasks.http_exchange import Answer, AnswerTooLargeError, ExchangeError, exchange
from ditto_tasks.interaction.base import ActionCall, ToolError

MAX_BODY_BYTES: Final = 2 * 2**20


def request(
    method: str, url: str, call: ActionCall, *, headers: Mapping[str, str], body: bytes | None = None
) -> Answer:
    """Send one request; raises ToolError when no whole answer comes. Any status is an answer."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ToolError("HTTP_FAILED", "only http and https are spoken")
    try:
        asked = Request(url, body, dict(headers), method=method)  # noqa: S310 - checked above
        return exchange(asked, max_bytes=MAX_BODY_BYTES, left_s=call.remaining_s, proxies=True)
    except AnswerTooLargeError as error:
        raise ToolError("HTTP_FAILED", "the answer is too large") from error
    except (ExchangeError, TimeoutError, ValueError) as error:  # ValueError: of a bad URL
        call.remaining_s()  # a socket's timeout is the call's
        raise ToolError("HTTP_FAILED", "the request failed", retryable=True) from error
