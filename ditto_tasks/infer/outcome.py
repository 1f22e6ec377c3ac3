"""Turns what an INFER node did into its one NodeResult. Pure."""

from ditto_tasks.errors import Cancelled, DittoError, InferError, ending_of
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import CancelToken, NodeError, NodeResult


def success(execution_id: str, node: str, output: JsonValue) -> NodeResult:
    """The result of a node that did its work."""
    return NodeResult(execution_id=execution_id, node=node, status="success", output=output)


def failure(execution_id: str, node: str, error: BaseException, token: CancelToken) -> NodeResult:
    """The result of a node that raised; only a DittoError's text is public."""
    public = public_error(error, token)
    return NodeResult(
        execution_id=execution_id,
        node=node,
        status=ending_of(public.code),
        error=NodeError(code=public.code, message=public.message),
    )


def public_error(error: BaseException, token: CancelToken) -> DittoError:
    """Return an error that may be shown: the caller's own reason counts as a cancellation."""
    if isinstance(error, DittoError):
        return error
    if token.cancelled and error is token.reason:
        return Cancelled()
    return InferError("EXECUTION_FAILED", "the node failed")
