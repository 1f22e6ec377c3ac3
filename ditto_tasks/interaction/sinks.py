"""Where OUTPUT can go: the log, a Redis stream, a webhook."""

from __future__ import annotations

import logging
from typing import Final

from ditto_tasks.interaction.base import ActionCall, ToolError
from ditto_tasks.interaction.http_requests import request
from ditto_tasks.interaction.models import OutputInput
from ditto_tasks.interaction.values import ExternalError, OutputReceipt
from ditto_tasks.json_values import encode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import ScriptClient, run_script
from ditto_tasks.models import to_wire

_log = logging.getLogger(__name__)

STREAM_TTL_MS: Final = 86_400_000  # a reader that stays away for a day has lost what it missed
STREAM_KEPT: Final = 10_000


def accepted(output: OutputInput) -> OutputReceipt:
    """The receipt of a delivery that was taken."""
    return OutputReceipt(delivery_id=output.delivery_id, status="accepted")


class LogSink:
    """Notes that there was something to deliver, and how much; never what it was."""

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:  # noqa: ARG002 - the port's
        """Write one line."""
        _log.info("output of %d bytes", len(encode(to_wire(output))))
        return accepted(output)


class RedisStreamSink:
    """Appends to the stream ``ditto:<deployment>:output``, which is capped and expires."""

    def __init__(self, client: ScriptClient, *, deployment: str) -> None:
        self._client = client
        self._keys = Keys(deployment)

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        """Append one entry, unless whose it is was erased."""
        keys = self._keys.output, self._keys.erased_root(call.root)
        entry = output.delivery_id, encode(to_wire(output)), STREAM_KEPT, STREAM_TTL_MS
        if run_script(self._client, "ditto_tasks.interaction", "deliver", keys, *entry) == 1:
            return accepted(output)
        error = ExternalError(code="ERASED", message="the session or tenant was erased")
        return OutputReceipt(delivery_id=output.delivery_id, status="rejected", error=error)


class WebhookSink:
    """Posts JSON to one URL. A refusal is a rejection; no answer leaves the outcome unknown."""

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, output: OutputInput, call: ActionCall) -> OutputReceipt:
        """Post once; the delivery id is the idempotency key of the receiver."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": _header(output.delivery_id)}
        answer = request("POST", self._url, call, headers=headers, body=encode(to_wire(output)))
        if answer.status < 300:
            return accepted(output)
        if answer.status >= 500:
            raise ToolError("WEBHOOK_FAILED", f"the webhook answered with HTTP status {answer.status}")
        message = f"the webhook answered with HTTP status {answer.status}"
        error = ExternalError(code="WEBHOOK_REJECTED", message=message)
        return OutputReceipt(delivery_id=output.delivery_id, status="rejected", error=error)


def _header(text: str) -> str:
    """A delivery id is any text; a header is not."""
    return text.encode("ascii", "backslashreplace").decode("ascii").replace("\r", "%0D").replace("\n", "%0A")
