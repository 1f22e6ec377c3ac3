"""Any server that speaks OpenAI's chat completions, through the official client."""

from contextlib import AbstractAsyncContextManager

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI

from ditto_tasks.bounded_http import bounded_client
from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.providers.failures import unreadable_error
from ditto_tasks.infer.providers.openai_format import StreamedAnswer, request_body, sample_of, wire_messages
from ditto_tasks.infer.providers.over_http import ClientErrors, HttpProvider, StreamedResponse
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject

DEFAULT_ENDPOINT = "https://api.openai.com/v1"
NO_KEY = "none"  # the client wants one, servers without keys ignore it


class OpenAiCompatibleProvider(HttpProvider):
    """One endpoint with one credential."""

    errors = ClientErrors(
        timeout=APITimeoutError, connection=APIConnectionError, status=APIStatusError, other=APIError
    )
    assembly = StreamedAnswer

    def __init__(
        self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None
    ) -> None:
        super().__init__(library="openai", endpoint=base_url or DEFAULT_ENDPOINT, model=model)
        self._client = AsyncOpenAI(
            api_key=api_key or NO_KEY,
            base_url=self.endpoint,
            organization="",  # empty, and not absent, which would be read from the environment
            project="",
            max_retries=0,
            http_client=bounded_client(unreadable_error),
        )

    def open_request(
        self, request: ModelRequest, *, stream: bool, timeout_s: float
    ) -> AbstractAsyncContextManager[StreamedResponse]:
        """Send one chat completion."""
        options: JsonObject = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        body = {"messages": wire_messages(request.messages)} | options | request_body(request)
        return self._client.chat.completions.with_streaming_response.create(
            model=request.model, messages=[], extra_body=body, timeout=timeout_s
        )

    def sample_of(self, answer: JsonObject) -> Sample:
        """Read the first choice."""
        return sample_of(answer)

    async def close_client(self) -> None:
        """Close the client."""
        await self._client.close()
