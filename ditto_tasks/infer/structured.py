"""Answers that must be JSON: one object, plain or in one fenced block. Nothing is repaired. Pure."""

import re
from typing import TypeVar

from pydantic import ValidationError

from ditto_tasks.errors import InferError
from ditto_tasks.infer.text import message_text
from ditto_tasks.infer.values import Sample
from ditto_tasks.json_values import InvalidJson, decode, pointer
from ditto_tasks.models import WireModel

Answer = TypeVar("Answer", bound=WireModel)
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(?P<json>.*?)\n?```", re.DOTALL | re.IGNORECASE)


def structured_answer(model: type[Answer], sample: Sample) -> Answer:
    """Return the sample's text as a model; raises INCOMPLETE_ or INVALID_MODEL_OUTPUT."""
    check_complete(sample)
    text = message_text(sample.message).strip()
    fenced = _FENCED.fullmatch(text)
    try:
        return model.model_validate(decode(fenced["json"] if fenced else text))
    except InvalidJson as error:
        raise InferError("INVALID_MODEL_OUTPUT", "the model's answer is not JSON") from error
    except ValidationError as error:
        path = pointer(*error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"])
        raise InferError("INVALID_MODEL_OUTPUT", f"the model's answer is wrong at {path or '/'}") from error


def check_complete(sample: Sample) -> None:
    """Raise unless the model came to its own end."""
    if sample.finish_reason == "length":
        raise InferError("INCOMPLETE_MODEL_OUTPUT", "the model's answer was cut at its token limit")
    if sample.finish_reason != "stop":
        raise InferError("INVALID_MODEL_OUTPUT", "the model did not answer with text")
