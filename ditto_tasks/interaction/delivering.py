"""OUTPUT: one delivery to the sink, and a receipt that is checked."""

import logging

from pydantic import ValidationError

from ditto_tasks.errors import InteractionError, raised
from ditto_tasks.interaction.base import (
    ActionCall,
    EffectUnknownError,
    InteractionCall,
    OutputSink,
    ToolError,
)
from ditto_tasks.interaction.bounded import BoundedRunner
from ditto_tasks.interaction.models import OutputInput
from ditto_tasks.interaction.results import as_tool_error, public_error
from ditto_tasks.interaction.values import OutputReceipt
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import to_wire

_log = logging.getLogger(__name__)


def deliver(
    given: OutputInput,
    sink: OutputSink | None,
    runner: BoundedRunner,
    limits: InteractionCall,
    action: ActionCall,
) -> OutputReceipt:
    """Hand the message over once; a sink's failure leaves an unknown delivery, never a repeated one."""
    if sink is None:
        raise InteractionError("SINK_UNAVAILABLE", "no output sink is configured")

    def effect() -> JsonValue:
        return to_wire(_receipt(given, sink, runner, action))

    if limits.once is None:
        limits.admit()
        return OutputReceipt.model_validate(effect())
    try:
        return OutputReceipt.model_validate(limits.once(to_wire(given), effect, limits.admit))
    except EffectUnknownError as error:
        return _unknown(given, ToolError(error.code, error.message))
    except ValidationError as error:
        raise InteractionError("INVALID_RECORD", "the recorded receipt can't be read") from error


def _receipt(
    given: OutputInput, sink: OutputSink, runner: BoundedRunner, action: ActionCall
) -> OutputReceipt:
    try:
        receipt: object = runner.run(lambda: sink.deliver(given, action), action)
    except Exception as error:  # noqa: BLE001 - a sink is foreign code: the message may be out all the same
        failed = as_tool_error(error, action.token)
        if failed.code == "TOOL_FAILED":
            _log.warning("the output sink met %s", raised(error))
            failed = ToolError("SINK_FAILED", "the sink failed")
        return _unknown(given, failed)
    if not isinstance(receipt, OutputReceipt) or receipt.delivery_id != given.delivery_id:
        return _unknown(given, ToolError("INVALID_RECEIPT", "the sink's receipt is not for this delivery"))
    return receipt


def _unknown(given: OutputInput, error: ToolError) -> OutputReceipt:
    return OutputReceipt(delivery_id=given.delivery_id, status="unknown", error=public_error(error))
