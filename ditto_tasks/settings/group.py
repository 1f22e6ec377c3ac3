"""The base of every group of settings, and the ranges that the groups share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

MAX_MS = 2**31 - 1  # the largest TTL that every store and client library accepts
MAX_LIMIT = 10_000  # of the records that one call may ask a backend for
MAX_POLICY = 1_000_000  # ceiling of every count in a context policy

Milliseconds = Annotated[int, Field(ge=1, le=MAX_MS)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
PolicyCount = Annotated[int, Field(ge=1, le=MAX_POLICY)]
Positive = Annotated[int, Field(ge=1, le=2**53 - 1)]


class Group(BaseModel):
    """A frozen group: camelCase in the file, snake_case in Python, nothing unknown, nothing coerced."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        hide_input_in_errors=True,
    )


class Domain(Group):
    """What every worker domain can set."""

    # None is no cap; a cap counts the entry calls that one process runs at a time
    concurrency: Positive | None = None
