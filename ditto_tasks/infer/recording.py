"""Samples as external effects: each is recorded under its step and its position in the step."""

from collections.abc import Callable
from dataclasses import replace

from pydantic import ValidationError

from ditto_tasks.errors import InferError
from ditto_tasks.infer.base import ModelRequest
from ditto_tasks.infer.values import Sample
from ditto_tasks.interaction.base import EffectKey
from ditto_tasks.interaction.ledger import EffectLedger
from ditto_tasks.json_values import JsonValue
from ditto_tasks.models import CancelToken, to_wire


class RecordedSamples:
    """Implements Once for one delivery of one task; the n-th sample of every delivery is the same effect."""

    def __init__(
        self, ledger: EffectLedger, first: EffectKey, *, token: CancelToken, repeat_unknown: bool
    ) -> None:
        self._ledger = ledger
        self._first = first
        self._token = token
        self._repeat_unknown = repeat_unknown
        self._position = 0

    def __call__(
        self, request: ModelRequest, effect: Callable[[], Sample], admit: Callable[[], None]
    ) -> Sample:
        """Return the recorded sample of this position, or take and record it."""
        key = replace(self._first, position=self._position)
        self._position += 1
        recorded = self._ledger.once(
            key,
            to_wire(request),
            lambda: outcome_of(effect),
            token=self._token,
            repeat_unknown=self._repeat_unknown,
            admit=admit,
        )
        return sample_of(recorded)


def outcome_of(effect: Callable[[], Sample]) -> JsonValue:
    """Return a sample or a typed failure as JSON: either is how the effect ended."""
    try:
        return {"sample": to_wire(effect())}
    except InferError as error:
        return {"error": {"code": error.code, "message": error.message}}


def sample_of(recorded: JsonValue) -> Sample:
    """Return the recorded sample, or raise the recorded failure."""
    if not isinstance(recorded, dict):
        raise InferError("INVALID_MODEL_OUTPUT", "a recorded sample can't be read")
    error = recorded.get("error")
    if isinstance(error, dict):
        raise InferError(str(error.get("code")), str(error.get("message")))
    try:
        return Sample.model_validate(recorded.get("sample"))
    except ValidationError as problem:
        raise InferError("INVALID_MODEL_OUTPUT", "a recorded sample can't be read") from problem
