"""Errors of model providers over HTTP: which code they get, and whether a repeat may help. Pure."""

from collections.abc import Mapping

from ditto_tasks.errors import InferError
from ditto_tasks.infer.base import TransientProviderError

TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def http_error(status: int, headers: Mapping[str, str]) -> InferError:
    """Return the error of a refused request; the provider's own text is not public."""
    details: dict[str, object] = {"status": status}
    message = f"the model provider answered with HTTP status {status}"
    if status not in TRANSIENT_STATUSES:
        return InferError("PROVIDER_HTTP_ERROR", message, details)
    wait_ms = retry_after_ms(headers)
    if wait_ms is not None:
        details["retryAfterMs"] = wait_ms
    return TransientProviderError("PROVIDER_HTTP_ERROR", message, details)


def connection_error() -> InferError:
    """Return the error of a connection that could not be made or was cut."""
    return TransientProviderError("PROVIDER_HTTP_ERROR", "the connection to the model provider failed")


def unreadable_error(what: str) -> InferError:
    """Return the error of an answer that is not read: ``what`` is wrong with it."""
    return InferError("INVALID_MODEL_OUTPUT", f"the provider's answer is {what}")


def timeout_error() -> InferError:
    """Return the error of an answer that did not come in time."""
    return InferError("TIMEOUT", "the model did not answer in time")


def retry_after_ms(headers: Mapping[str, str]) -> int | None:
    """Return the wait that the server asks for, in ms; dates are not read (they need a clock)."""
    for name, unit_ms in (("retry-after-ms", 1), ("retry-after", 1000)):
        try:
            value = float(headers[name]) * unit_ms
        except (KeyError, ValueError):
            continue
        if 0 <= value < 2**31:  # also refuses NaN and infinity
            return int(value)
    return None
