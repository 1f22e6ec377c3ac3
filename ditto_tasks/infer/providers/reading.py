"""Reads what providers answer: one JSON object, or server-sent events."""

from collections.abc import AsyncIterator

from ditto_tasks.errors import InferError
from ditto_tasks.infer.providers.failures import connection_error
from ditto_tasks.json_values import InvalidJson, JsonObject, decode


async def _connected(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk
    except InferError:  # too large
        raise
    except Exception as error:
        raise connection_error() from error


async def json_body(chunks: AsyncIterator[bytes]) -> JsonObject:
    """Return the whole body, which is one JSON object."""
    return json_object(b"".join([chunk async for chunk in _connected(chunks)]))


async def sse_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield the data of each server-sent event."""
    data: list[str] = []
    async for line in _lines(_connected(chunks)):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []
    if data:
        yield "\n".join(data)


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield _text(line)
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def json_object(data: bytes | str) -> JsonObject:
    """Return the JSON object that the provider sent; raises INVALID_MODEL_OUTPUT."""
    try:
        value = decode(data)
    except InvalidJson as error:
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is not JSON") from error
    if not isinstance(value, dict):
        raise InferError("INVALID_MODEL_OUTPUT", "the provider's answer is not a JSON object")
    return value
