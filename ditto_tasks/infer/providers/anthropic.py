"""Anthropic's Messages, through the official client."""

from contextlib import AbstractAsyncContextManager

from anthropic import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncAnthropic

from ditto_tasks.bounded_http import bounded_client
from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.providers.anthropic_format import (
    DEFAULT_MAX_TOKENS,
    StreamedMessage,
    request_body,
    sample_of,
    wire_messages,
)
from ditto_tasks.infer.providers.failures import unreadable_error
from ditto_tasks.infer.providers.over_http import ClientErrors, HttpProvider, StreamedResponse
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject

DEFAULT_ENDPOINT = "https://api.anthropic.com"
NO_KEY = "none"  # given, so that the client looks neither into the environment nor into its own files


class AnthropicProvider(HttpProvider):
    """One endpoint with one credential."""

    errors = ClientErrors(
        timeout=APITimeoutError, connection=APIConnectionError, status=APIStatusError, other=APIError
    )
    assembly = StreamedMessage

    def __init__(
        self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None
    ) -> None:
        super().__init__(library="anthropic", endpoint=base_url or DEFAULT_ENDPOINT, model=model)
        self._client = AsyncAnthropic(
            api_key=api_key or NO_KEY,
            base_url=self.endpoint,
            max_retries=0,
            http_client=bounded_client(unreadable_error),
        )

    def open_request(
        self, request: ModelRequest, *, stream: bool, timeout_s: float
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send one request for a message."""
        options: JsonObject = {"stream": True} if stream else {}
        body = {"messages": wire_messages(request.messages)} | options | request_body(request)
        return self._client.messages.with_streaming_response.create(
            model=request.model,
            messages=[],
            max_tokens=request.generation.max_tokens or DEFAULT_MAX_TOKENS,
            extra_body=body,
            timeout=timeout_s,
        )

    def sample_of(self, answer: JsonObject) -> Sample:
        """Read the content blocks."""
        return sample_of(answer)

    async def close_client(self) -> None:
        """Close the client."""
        await self._client.close()
