"""One HTTP request with the standard library: bounded in time and size, no redirects, and it can be cut."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import (
    BaseHandler,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

POLL_S: Final = 0.05  # how late a cancel or the end of the time is noticed
CHUNK: Final = 65_536


class ExchangeError(Exception):
    """No whole answer came; the cause may hold an address."""


class AnswerTooLargeError(Exception):
    """The answer exceeds its bound."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body; a refusal, which is any status from 300 on, has its body left unread."""

    status: int
    body: bytes


def exchange(request: Request, *, max_bytes: int, left_s: Callable[[], float], proxies: bool) -> Answer:
    """Send one request. ``left_s`` says how much time is left, and raises to cut the exchange.

    Raises ExchangeError, AnswerTooLargeError, TimeoutError or what ``left_s`` raises; in all cases the
    connection is closed. With ``proxies`` those of the environment are used.
    """
    running = _Exchange(request, max_bytes)
    thread = threading.Thread(target=running.run, args=(left_s(), proxies), name="ditto-http", daemon=True)
    thread.start()
    try:
        while not running.ended.wait(POLL_S):
            if left_s() <= 0:
                raise TimeoutError
    finally:
        running.cut()
    return running.outcome()


class _NoRedirect(HTTPRedirectHandler):
    """A redirect could carry a credential to another place."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class _Plain(HTTPHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def http_open(self, req: Request) -> Any:  # the handler's own type
        return self.do_open(partial(_PlainConnection, exchange=self._exchange), req)


class _Secure(HTTPSHandler):
    def __init__(self, exchange: _Exchange) -> None:
        super().__init__()
        self._exchange = exchange

    def https_open(self, req: Request) -> Any:  # the handler's own type
        return self.do_open(partial(_SecureConnection, exchange=self._exchange), req)


class _PlainConnection(HTTPConnection):
    def __init__(self, *args: Any, exchange: _Exchange, **more: Any) -> None:
        super().__init__(*args, **more)
        self._exchange = exchange

    def connect(self) -> None:
        super().connect()
        self._exchange.connected(self.sock)


class _SecureConnection(HTTPSConnection):
    def __init__(self, *args: Any, exchange: _Exchange, **more: Any) -> None:
        super().__init__(*args, **more)
        self._exchange = exchange

    def connect(self) -> None:
        super().connect()
        self._exchange.connected(self.sock)


@dataclass
class _Exchange:
    """A request on its way: one thread waits for the answer, another one may cut the connection."""

    request: Request
    max_bytes: int
    ended: threading.Event = field(default_factory=threading.Event)
    _socket: socket.socket | None = None
    _is_cut: bool = False
    _answer: Answer | None = None
    _error: Exception | None = None

    def run(self, timeout_s: float, proxies: bool) -> None:
        try:
            self._answer = self._sent(timeout_s, proxies)
        except Exception as error:  # noqa: BLE001 -- handed to the thread that waits, whatever it is
            self._error = error
        finally:
            self.ended.set()

    def connected(self, opened: socket.socket) -> None:
        self._socket = opened
        if self._is_cut:
            self.cut()

    def cut(self) -> None:
        """End the connection, whoever reads from it. Idempotent."""
        self._is_cut = True
        if self._socket is not None:
            with suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)

    def outcome(self) -> Answer:
        if self._answer is not None:
            return self._answer
        if isinstance(self._error, AnswerTooLargeError | TimeoutError):
            raise self._error
        if isinstance(getattr(self._error, "reason", None), TimeoutError):
            raise TimeoutError from self._error
        raise ExchangeError from self._error

    def _sent(self, timeout_s: float, proxies: bool) -> Answer:
        try:
            with _opener(self, proxies).open(self.request, timeout=timeout_s) as response:
                return Answer(response.status, self._body(response))
        except HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, b"")

    def _body(self, response: Any) -> bytes:  # HTTPResponse; urllib's stubs say less
        chunks: list[bytes] = []
        left = self.max_bytes
        while chunk := response.read1(CHUNK):
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLargeError
            chunks.append(chunk)
        if response.length:  # bytes that were announced and did not come
            raise HTTPException("the answer was cut")
        return b"".join(chunks)


def _opener(running: _Exchange, proxies: bool) -> OpenerDirector:
    handlers: list[BaseHandler] = [_NoRedirect(), _Plain(running), _Secure(running)]
    return build_opener(*handlers, *([] if proxies else [ProxyHandler({})]))
