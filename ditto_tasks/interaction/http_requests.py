"""Small HTTP requests with the standard library: bounded time and size, no redirects."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlsplit

from ditto_tasks.interaction.base import ActionCall, ToolError

MAX_BODY_BYTES: Final = 2 * 2**20
CHUNK: Final = 65_536


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the credential to another place."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True)
class HttpAnswer:
    """Status and body."""

    status: int
    body: bytes


def request(
    method: str, url: str, call: ActionCall, *, headers: Mapping[str, str], body: bytes | None = None
) -> HttpAnswer:
    """Send one request; raises ToolError when no whole answer comes. Any status is an answer."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ToolError("HTTP_FAILED", "only http and https are spoken")
    asked = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310 - checked above
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(asked, timeout=call.remaining_s()) as answer:
            return HttpAnswer(answer.status, _body(answer, call))
    except urllib.error.HTTPError as error:
        with error:
            return HttpAnswer(error.code, b"")
    except (OSError, ValueError, HTTPException) as error:  # also URLError and bad headers
        call.remaining_s()  # a socket's timeout is the call's
        raise ToolError("HTTP_FAILED", "the request failed", retryable=True) from error


def _body(answer: HTTPResponse, call: ActionCall) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := answer.read1(CHUNK):
        call.remaining_s()
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise ToolError("HTTP_FAILED", "the answer is too large")
        chunks.append(chunk)
    if answer.length:  # bytes that were announced and did not come
        raise ToolError("HTTP_FAILED", "the answer was cut", retryable=True)
    return b"".join(chunks)
