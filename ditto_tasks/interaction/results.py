"""From what an action did to a checked ExternalResult. Pure."""

from __future__ import annotations

import re

from pydantic import ValidationError

from ditto_tasks.errors import Cancelled, DittoError, ending_of
from ditto_tasks.interaction.base import ToolError, ToolOutput
from ditto_tasks.interaction.values import ExternalError, ExternalResult, safe_text
from ditto_tasks.json_values import InvalidJson, encode, freeze
from ditto_tasks.models import CancelToken

MAX_OUTPUT_BYTES = 1_048_576
_UNSAFE_IN_CODE = re.compile(r"[^A-Za-z0-9_.-]")


def success_result(call_id: str, source: str, output: object, *, max_bytes: int) -> ExternalResult:
    """Return the result of a tool that ended; bad output is a failure with its code."""
    try:
        return _checked(call_id, source, tool_output(output), max_bytes)
    except (InvalidJson, ValidationError):
        error = ToolError("INVALID_TOOL_OUTPUT", "the tool's output is not content as JSON")
    except ToolError as problem:
        error = problem
    return failure_result(call_id, source, error)


def tool_output(output: object) -> ToolOutput:
    """Return text as content and an object as structured content; anything else is refused."""
    if isinstance(output, ToolOutput):
        return output
    if isinstance(output, str):
        return ToolOutput(content=output)
    if isinstance(output, dict):
        return ToolOutput(structured_content=output)
    raise ToolError("INVALID_TOOL_OUTPUT", "the tool's output is neither text nor an object")


def _checked(call_id: str, source: str, output: ToolOutput, max_bytes: int) -> ExternalResult:
    given = {
        "content": output.content,
        "structuredContent": output.structured_content,
        "references": output.references,
        "metadata": output.metadata,
    }
    known = {key: value for key, value in given.items() if value is not None}
    # first without reading it all: checking every value of a huge output would hold up the worker
    if is_surely_larger(known, max_bytes):
        raise _too_large(max_bytes)
    fields = {key: freeze(value) for key, value in known.items()}
    if len(encode(fields)) > max_bytes:
        raise _too_large(max_bytes)
    if output.error is None:
        return ExternalResult.model_validate(
            {"callId": call_id, "source": source, "status": "success", **fields}
        )
    failed = {"status": output.error.status, "error": public_error(output.error)}
    return ExternalResult.model_validate({"callId": call_id, "source": source, **failed, **fields})


def is_surely_larger(value: object, max_bytes: int) -> bool:
    """Whether a value's JSON must exceed so many bytes; it is read no further than needed to know."""
    left, stack = max_bytes, [value]
    while stack and left >= 0:
        each = stack.pop()
        if isinstance(each, str):
            left -= len(each)
        elif isinstance(each, dict | list | tuple):
            left -= len(each)
            if left >= 0:
                stack.extend(each.values() if isinstance(each, dict) else each)
        else:
            left -= 1
    return left < 0


def _too_large(max_bytes: int) -> ToolError:
    return ToolError("TOOL_OUTPUT_TOO_LARGE", f"the tool's output exceeds {max_bytes} bytes")


def failure_result(call_id: str, source: str, error: ToolError) -> ExternalResult:
    """Return the result of a tool that failed."""
    return ExternalResult(call_id=call_id, source=source, status=error.status, error=public_error(error))


def public_error(error: ToolError) -> ExternalError:
    """Return the tool's own error within the bounds of what may be shown."""
    code = _UNSAFE_IN_CODE.sub("_", error.code)[:64] or "TOOL_FAILED"
    return ExternalError(code=code, message=safe_text(error.message), retryable=error.retryable)


def as_tool_error(error: BaseException, token: CancelToken) -> ToolError:
    """Return any exception of an action as its typed failure; raw texts are not shown."""
    if isinstance(error, ToolError):
        return error
    if token.cancelled and error is token.reason and not isinstance(error, DittoError):
        error = Cancelled()
    if isinstance(error, DittoError):
        return ToolError(error.code, error.message, status=ending_of(error.code))
    return ToolError("TOOL_FAILED", "the tool failed")
