"""Errors as HTTP answers: a status, a body without content of messages, and headers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ditto_tasks.errors import DittoError, ending_of
from ditto_tasks.json_values import JsonObject, pointer
from ditto_tasks.task import OPTIONS_KEY
from ditto_tasks.web.headers import etag
from ditto_tasks.web.models import Failure

RETRY_AFTER_S: Final = 1  # a shard of full depth drains in about this time
UNAVAILABLE_AFTER_S: Final = 5  # servers that restart take this long

OPTIONS_PATH: Final = f"/{OPTIONS_KEY}"

STATUS_OF: Final[Mapping[str, int]] = {
    "NO_TENANT": 403,
    "CONTEXT_NOT_FOUND": 404,
    "NOT_FOUND": 404,
    "RUN_NOT_FOUND": 404,
    "RUN_EXISTS": 409,
    "RUN_NOT_STOPPED": 409,
    "RUN_NOT_RESUMABLE": 409,
    "STATE_CONFLICT": 409,
    "OPERATION_MISMATCH": 409,
    "CANCELLED": 409,
    "ERASED": 410,
    "MESSAGE_TOO_LARGE": 413,
    "BODY_TOO_LARGE": 413,
    "INVALID_INPUT": 422,
    "MISSING_ITEM": 422,
    "DUPLICATE_ITEM": 422,
    "INLINE_LIMIT_EXCEEDED": 422,
    "ITEM_LIMIT_EXCEEDED": 422,
    "BUDGET_UNSATISFIABLE": 422,
    "BUDGET_TOO_SMALL": 422,
    "STRATEGY_UNAVAILABLE": 422,
    "RESOLVER_UNAVAILABLE": 422,
    "UNSUPPORTED_ACTION": 422,
    "QUEUE_FULL": 429,
    "TOO_MANY_STREAMS": 429,
    "STREAMS_EXHAUSTED": 503,
    "BROKER_UNAVAILABLE": 503,
    "STATE_BACKEND_UNAVAILABLE": 503,
    "STATE_STORE_UNAVAILABLE": 503,
    "STATE_OUTCOME_UNKNOWN": 503,
    "FENCED": 503,
    "DEPLOYMENT_MISMATCH": 503,
    "SHARD_COUNT_MISMATCH": 503,
    "TIMEOUT": 504,
}
RETRY_AFTER: Final[Mapping[int, int]] = {429: RETRY_AFTER_S, 503: UNAVAILABLE_AFTER_S}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is not a success."""

    status: int
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)


def failure_of(error: DittoError) -> JsonObject:
    """What callers may know of an error."""
    details = error.details or {}
    path, version = details.get("path"), details.get("current_version")
    return Failure(
        code=error.code,
        message=error.message,
        path=path if isinstance(path, str) else None,
        currentVersion=version if isinstance(version, str) else None,
    ).model_dump(exclude_none=True)


def refusal_of(error: DittoError) -> Refusal:
    """The answer to a request that failed with this error."""
    status = STATUS_OF.get(error.code, 500)
    failure = _placed(failure_of(error))
    version = failure.get("currentVersion")
    known = {"ETag": etag(version)} if isinstance(version, str) else {}
    retry = {"Retry-After": str(RETRY_AFTER[status])} if status in RETRY_AFTER else {}
    return Refusal(status, {"error": failure}, {**known, **retry})


def _placed(failure: JsonObject) -> JsonObject:
    """The failure with the part of the request that its path is in: options of the task were the query's."""
    path = failure.get("path")
    if not isinstance(path, str):
        return failure
    if path.startswith(OPTIONS_PATH):
        return {**failure, "where": "query", "path": path.removeprefix(OPTIONS_PATH)}
    return {**failure, "where": "body"}


def invalid(where: str, path: str, message: str) -> Refusal:
    """The 422 for a part of a request that cannot be taken."""
    about = f"{path or where}: {message}"
    return Refusal(422, {"error": {"code": "INVALID_INPUT", "message": about, "where": where, "path": path}})


def invalid_field(problems: Sequence[Mapping[str, object]]) -> Refusal:
    """The 422 for the first of pydantic's problems; what was sent is not repeated."""
    first = problems[0]
    location = first.get("loc")
    where, *parts = location if isinstance(location, tuple) else ("body",)
    context = first.get("ctx")
    within = str(context.get("path", "")) if isinstance(context, dict) else ""
    return invalid(str(where), pointer(*parts) + within, str(first.get("msg", "is wrong")))


def not_found() -> DittoError:
    """The same for a task that never was and for one of another tenant."""
    return DittoError("NOT_FOUND", "there is no such task")


def unavailable() -> DittoError:
    """The broker or the result server did not answer; its own error may hold an address."""
    return DittoError("BROKER_UNAVAILABLE", "the queue cannot be reached at the moment")


def no_tenant() -> DittoError:
    """The application's dependency named nobody: nothing is open to nobody."""
    return DittoError("NO_TENANT", "the request belongs to no tenant")


def too_large(limit: int) -> DittoError:
    return DittoError("BODY_TOO_LARGE", f"a body may have {limit} bytes")


def status_of_task(error: DittoError) -> str:
    """How a task that ended with an error is called; one that was too late has failed."""
    return "cancelled" if ending_of(error.code) == "cancelled" else "failed"
