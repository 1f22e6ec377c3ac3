"""Reading NodeResults: a failed one is data until a step needs what it does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from ditto_tasks import errors
from ditto_tasks.errors import DittoError, PipelineError
from ditto_tasks.json_values import JsonObject, JsonValue

_ERRORS: Final[Mapping[str, type[DittoError]]] = MappingProxyType(
    {
        "MEMORY": errors.MemoryError,
        "INFER": errors.InferError,
        "RETRIEVAL": errors.RetrievalError,
        "INTERACTION": errors.InteractionError,
    }
)

RAISED: Final = "ditto:raised"  # no node's result has such a key


class Failure(NamedTuple):
    """What a NodeResult that is not a success says."""

    node: str
    status: str
    code: str
    message: str

    def error(self) -> DittoError:
        """The typed error of the node's domain."""
        details = {"node": self.node, "status": self.status}
        kind = _ERRORS.get(self.node.partition(".")[0], PipelineError)
        return kind(self.code, self.message, details)


def failure_of(result: JsonValue) -> Failure | None:
    """What went wrong, or None for a success."""
    if not isinstance(result, dict) or "status" not in result:
        raise PipelineError("INVALID_UPSTREAM", "the previous step did not answer with a NodeResult")
    status = str(result["status"])
    if status == "success":
        return None
    error = cast(JsonObject, result.get("error") or {})
    code, message = error.get("code", status.upper()), error.get("message", "the node did not succeed")
    return Failure(str(result.get("node", "")), status, str(code), str(message))


def output_of(result: JsonValue) -> JsonValue:
    """The output of a successful NodeResult; a failed one is raised as its domain's error."""
    failure = failure_of(result)
    if failure is not None:
        raise failure.error()
    return cast(JsonObject, result).get("output")


def is_node_result(result: JsonValue) -> bool:
    return isinstance(result, dict) and {"executionId", "node", "status"} <= result.keys()


def error_to_wire(error: BaseException) -> JsonObject:
    """An error as a pipeline's record keeps it; only errors of this package keep their text."""
    if not isinstance(error, DittoError):
        error = PipelineError("PIPELINE_FAILED", f"a step met {type(error).__name__}")
    details = cast(JsonObject, dict(error.details or {}))
    return {"kind": type(error).__name__, "code": error.code, "message": error.message, "details": details}


def raised_result(error: DittoError) -> JsonObject:
    """What a flow's record keeps in place of the result of a step that raised."""
    return {RAISED: error_to_wire(error)}


def raised_error(result: JsonValue) -> DittoError | None:
    """The error of a step that raised, or None for a result."""
    if not isinstance(result, dict) or result.keys() != {RAISED}:
        return None
    return error_from_wire(cast(JsonObject, result[RAISED]))


def error_from_wire(wire: JsonObject) -> DittoError:
    """The typed error that a record tells of."""
    kind = getattr(errors, str(wire["kind"]), PipelineError)
    details = cast("dict[str, object]", wire["details"]) or None
    return cast(DittoError, kind(str(wire["code"]), str(wire["message"]), details))
