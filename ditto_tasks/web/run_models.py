"""What requests about runs hold, and which of them there may be."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from ditto_tasks.models import Json, NonEmptyText, WireModel
from ditto_tasks.pipelines.run_views import RunViewState
from ditto_tasks.web.models import Body

MAX_LISTED: Final = 100  # each is some round trips
MAX_TIMEOUT_MS: Final = 7 * 86_400_000

Timeout = Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS, strict=True)]


class StartBody(Body):
    """The input of a run, as the graph's bindings take it."""

    input: Json = None
    timeout_ms: Timeout | None = None


class ResumeBody(Body):
    """Until the new deadline; without it the deployment's."""

    timeout_ms: Timeout | None = None


class RunsQuery(WireModel):
    """Which runs are listed. With states a page may hold fewer, even none, while there are more."""

    state: tuple[RunViewState, ...] = ()
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 50
    cursor: NonEmptyText | None = None
