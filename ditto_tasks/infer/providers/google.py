"""Google's Gemini models, through the official client."""

import logging
from collections.abc import Callable
from typing import Any

from google.genai import Client
from google.genai.errors import APIError
from google.genai.types import HttpOptions
from pydantic import BaseModel, ValidationError

from ditto_tasks.bounded_http import bounded_client
from ditto_tasks.errors import DittoError, InferError
from ditto_tasks.event_loop import LoopThread
from ditto_tasks.infer.base import ModelRequest, ProviderCall
from ditto_tasks.infer.providers.failures import (
    connection_error,
    http_error,
    timeout_error,
    unreadable_error,
)
from ditto_tasks.infer.providers.google_format import request_config, sample_of, text_of, wire_contents
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import JsonObject

DEFAULT_ENDPOINT = "https://generativelanguage.googleapis.com"
NO_KEY = "none"  # given, so that the client does not look into the environment


class GoogleProvider:
    """One endpoint with one credential."""

    def __init__(
        self, *, base_url: str | None = None, api_key: str | None = None, model: str | None = None
    ) -> None:
        # client libraries log whole requests at DEBUG, and what people say to models is nobody's log
        logging.getLogger("google_genai").setLevel(logging.WARNING)
        self.endpoint: str | None = base_url or DEFAULT_ENDPOINT
        self.default_model = model
        self._loop = LoopThread("ditto-google")
        self._http = bounded_client(unreadable_error)
        self._client = Client(
            api_key=api_key or NO_KEY,
            vertexai=False,
            http_options=HttpOptions(base_url=self.endpoint, httpx_async_client=self._http),
        )

    def sample(self, request: ModelRequest, call: ProviderCall) -> Sample:
        """Ask once; at the deadline or on cancellation the connection is closed."""
        chunks = self._loop.run(
            lambda: self._answer(request, call.on_text),
            timeout_s=call.remaining_s(),
            token=call.token,
            on_timeout=timeout_error(),
        )
        return sample_of(chunks)

    def close(self) -> None:
        """Close the connections and the loop."""
        self._loop.close(self._close_client)
        self._client.close()

    async def _close_client(self) -> None:
        await self._client.aio.aclose()
        await self._http.aclose()  # the library leaves it to whoever made it

    async def _answer(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> list[JsonObject]:
        try:
            return await self._ask(request, on_text)
        except DittoError:
            raise
        except APIError as error:
            raise http_error(error.code, getattr(error.response, "headers", {})) from error
        except (ValidationError, ValueError) as error:
            raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer can't be read") from error
        except Exception as error:
            raise connection_error() from error

    async def _ask(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> list[JsonObject]:
        # the client checks these dicts itself, which its types do not say
        arguments: dict[str, Any] = {
            "model": request.model,
            "contents": wire_contents(request.messages),
            "config": request_config(request),
        }
        if on_text is None:
            return [_wire(await self._client.aio.models.generate_content(**arguments))]
        chunks: list[JsonObject] = []
        async for chunk in await self._client.aio.models.generate_content_stream(**arguments):
            chunks.append(_wire(chunk))
            if text := text_of(chunks[-1]):
                on_text(text)
        return chunks


def _wire(answer: BaseModel) -> JsonObject:
    return answer.model_dump(mode="json", by_alias=True, exclude_none=True)
