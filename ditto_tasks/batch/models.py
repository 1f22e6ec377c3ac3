"""What a batch run is asked, what its tasks are sent, and the row that each scope ends as."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from ditto_tasks.models import NonEmptyText, Scope, Text, WireModel

RUN_ID: Final = r"^[A-Za-z0-9._-]{1,64}$"  # part of a key, and of the name of the report

RunId = Annotated[str, Field(pattern=RUN_ID)]
Ceiling = Annotated[int, Field(strict=True, ge=1, le=2**53 - 1)]
Status = Literal["unchanged", "compressed", "over", "would-compress", "failed"]


class Budget(WireModel):
    """Ceilings of a run; the policy's hold as well."""

    max_items: Ceiling | None = None
    max_tokens: Ceiling | None = None


class CompressRequest(Budget):
    """A whole run: which sessions, and what to do with them. Also the input of BATCH.RUN."""

    match: Text = ""  # what session ids start with, literally
    older_than_ms: Ceiling | None = None  # not written for so long
    dry_run: Annotated[bool, Field(strict=True)] = False
    renew_ttl: Annotated[bool, Field(strict=True)] = False


class RunInput(CompressRequest):
    """Input of BATCH.RUN. Without `run` the run is called by the id of its first task."""

    run: RunId | None = None


class ScanInput(Budget):
    """Input of BATCH.SCAN: which of these scopes are over budget?"""

    run: RunId
    scopes: tuple[Scope, ...]
    dry_run: Annotated[bool, Field(strict=True)] = False


class CompressInput(Budget):
    """Input of BATCH.COMPRESS: bring scopes of one shard within budget, each as an operation of its own."""

    run: RunId
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    renew_ttl: Annotated[bool, Field(strict=True)] = False


class Sizes(WireModel):
    """Of one context; tokens None if the estimator failed."""

    items: int
    tokens: int | None = None


class Row(WireModel):
    """What became of one scope. It names the scope by its hash and holds no content.

    `over` is no end: the scope waits for its turn on its shard. Sizes are absent where a repeated
    delivery can only tell that the compression was committed.
    """

    scope: NonEmptyText
    status: Status
    before: Sizes | None = None
    after: Sizes | None = None
    removed_ids: tuple[NonEmptyText, ...] | None = None
    code: NonEmptyText | None = None

    @property
    def is_final(self) -> bool:
        return self.status != "over"
