"""Any server that speaks OpenAI's chat completions, through the official client."""

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, AsyncOpenAI

from ditto_tasks.errors import InferError
from ditto_tasks.event_loop import LoopThread
from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.providers.failures import connection_error, http_error, timeout_error
from ditto_tasks.infer.providers.openai_format import StreamedAnswer, request_body, sample_of, wire_messages
from ditto_tasks.infer.providers.reading import json_body, json_object, sse_data
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject

DEFAULT_ENDPOINT = "https://api.openai.com/v1"
SLACK_S = 5.0  # the loop keeps the deadline; the client's own, which restarts at each byte, comes later


class OpenAiCompatibleProvider:
    """One endpoint with one credential; requests run on a loop of their own, so that they can be cut."""

    def __init__(
        self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None
    ) -> None:
        self.endpoint: str | None = base_url or DEFAULT_ENDPOINT
        self.default_model = model
        self._loop = LoopThread("ditto-openai")
        # empty strings keep the client from looking into the environment
        self._client = AsyncOpenAI(
            api_key=api_key or "none",
            base_url=self.endpoint,
            organization="",
            project="",
            max_retries=0,
        )

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        """Ask once; at the deadline or on cancellation the connection is closed."""
        timeout_s = call.remaining_s()
        answer = self._loop.run(
            lambda: self._answer(request, call, timeout_s),
            timeout_s=timeout_s,
            token=call.token,
            on_timeout=timeout_error(),
        )
        return sample_of(answer)

    def close(self) -> None:
        """Close the connections and the loop."""
        self._loop.close(self._client.close)

    async def _answer(self, request: ModelRequest, call: ProviderCall, timeout_s: float) -> JsonObject:
        try:
            return await self._ask(request, call, timeout_s)
        except APITimeoutError as error:
            raise timeout_error() from error
        except APIConnectionError as error:
            raise connection_error() from error
        except APIStatusError as error:
            raise http_error(error.status_code, error.response.headers) from error
        except APIError as error:
            raise InferError("MODEL_ERROR", "the model provider failed") from error

    async def _ask(self, request: ModelRequest, call: ProviderCall, timeout_s: float) -> JsonObject:
        stream = call.on_text is not None
        options: JsonObject = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        body = {"messages": wire_messages(request.messages)} | options | request_body(request)
        asking = self._client.chat.completions.with_streaming_response.create(
            model=request.model, messages=[], extra_body=body, timeout=timeout_s + SLACK_S
        )
        async with asking as response:
            if call.on_text is None:
                return await json_body(response.iter_bytes())
            streamed = StreamedAnswer()
            async for data in sse_data(response.iter_bytes()):
                if data == "[DONE]":
                    break
                if text := streamed.add(json_object(data)):
                    call.on_text(text)
            return streamed.complete()
