"""Options of the built-in strategies."""

from typing import Annotated, TypeVar

from pydantic import Field

from ditto_tasks.errors import DittoError, InferError
from ditto_tasks.json_values import JsonObject
from ditto_tasks.models import WireModel, from_wire

Rounds = Annotated[int, Field(strict=True, ge=1, le=64)]
Breadth = Annotated[int, Field(strict=True, ge=1, le=16)]
Options = TypeVar("Options", bound=WireModel)


class ChainOptions(WireModel):
    """Of ``cot``."""

    rounds: Rounds = 2


class LongChainOptions(WireModel):
    """Of ``long-cot``."""

    rounds: Rounds = 4


class TreeOptions(WireModel):
    """Of ``tot``."""

    breadth: Breadth = 3
    depth: Breadth = 2
    beam_width: Breadth = 2


class GraphOptions(WireModel):
    """Of ``got``."""

    breadth: Breadth = 3
    depth: Breadth = 2


class VotingOptions(WireModel):
    """Of ``self-consistency``."""

    candidates: Rounds = 3


def read_options(model: type[Options], given: JsonObject) -> Options:
    """Return the options; raises INVALID_INPUT with the path from the input's root."""
    try:
        return from_wire(model, given, error=InferError)
    except DittoError as error:
        path = str((error.details or {}).get("path", ""))
        reason = error.message.partition(": ")[2]
        raise InferError.invalid_input(f"/strategy/options{path}", reason) from error
