"""What the providers over HTTP share: a loop whose requests can be cut, and their clients' errors."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ditto_tasks.errors import InferError
from ditto_tasks.event_loop import LoopThread
from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.providers.failures import connection_error, http_error, timeout_error
from ditto_tasks.infer.providers.reading import json_body, json_object, sse_data
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject

SLACK_S = 5.0  # the loop keeps the deadline; a client's own, which restarts at each byte, comes later


class StatusError(Protocol):
    """A refused request, as the official clients report it."""

    status_code: int

    @property
    def response(self) -> "WithHeaders":
        """The refusing answer."""
        ...


class WithHeaders(Protocol):
    """An answer's headers."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""
        ...


class StreamedResponse(Protocol):
    """A body that is still to be read."""

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Read it."""
        ...


class Assembly(Protocol):
    """Puts a streamed answer together."""

    def add(self, chunk: JsonObject) -> str:
        """Take one chunk; return the text that it brought."""
        ...

    def complete(self) -> JsonObject:
        """Return the answer in the form of one that was not streamed."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClientErrors:
    """The error classes of one client library."""

    timeout: type[Exception]
    connection: type[Exception]
    status: type[Exception]
    other: type[Exception]


class HttpProvider:
    """Implements ModelProvider over one client; a subclass knows the client and its format."""

    errors: ClientErrors
    assembly: Callable[[], Assembly]

    def __init__(self, *, library: str, endpoint: str, model: str | None) -> None:
        # client libraries log whole requests at DEBUG, and what people say to models is nobody's log
        logging.getLogger(library).setLevel(logging.WARNING)
        self.endpoint: str | None = endpoint
        self.default_model = model
        self._loop = LoopThread("ditto-provider")

    def open_request(
        self, request: ModelRequest, *, stream: bool, timeout_s: float
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send the request; the answer's body is read inside the context."""
        raise NotImplementedError

    def sample_of(self, answer: JsonObject) -> Sample:
        """Return the sample that a complete answer holds."""
        raise NotImplementedError

    async def close_client(self) -> None:
        """Close the client's connections."""
        raise NotImplementedError

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        """Ask once; at the deadline or on cancellation the connection is closed."""
        timeout_s = call.remaining_s()
        answer = self._loop.run(
            lambda: self._answer(request, call, timeout_s),
            timeout_s=timeout_s,
            token=call.token,
            on_timeout=timeout_error(),
        )
        return self.sample_of(answer)

    def close(self) -> None:
        """Close the connections and the loop."""
        self._loop.close(self.close_client)

    async def _answer(self, request: ModelRequest, call: ProviderCall, timeout_s: float) -> JsonObject:
        try:
            return await self._ask(request, call, timeout_s + SLACK_S)
        except self.errors.other as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> InferError:
        if isinstance(error, self.errors.timeout):  # a kind of connection error, so it is asked first
            return timeout_error()
        if isinstance(error, self.errors.connection):
            return connection_error()
        if isinstance(error, self.errors.status):
            return _refusal(error)  # type: ignore[arg-type]  # that is what a StatusError is
        return InferError("MODEL_ERROR", "the model provider failed")

    async def _ask(self, request: ModelRequest, call: ProviderCall, timeout_s: float) -> JsonObject:
        stream = call.on_text is not None
        async with self.open_request(request, stream=stream, timeout_s=timeout_s) as response:
            if call.on_text is None:
                return await json_body(response.iter_bytes())
            return await self._assembled(response, call.on_text)

    async def _assembled(self, response: StreamedResponse, on_text: Callable[[str], None]) -> JsonObject:
        assembly = self.assembly()
        async for data in sse_data(response.iter_bytes()):
            if data == "[DONE]":
                break
            if text := assembly.add(json_object(data)):
                on_text(text)
        return assembly.complete()


def _refusal(error: StatusError) -> InferError:
    return http_error(error.status_code, error.response.headers)
