"""Which scopes a run is about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ditto_tasks.batch.models import CompressRequest
from ditto_tasks.errors import DittoError, SettingsError
from ditto_tasks.json_values import InvalidJson, decode
from ditto_tasks.models import Scope
from ditto_tasks.state.index import ScopeIndex


def indexed_scopes(index: ScopeIndex, request: CompressRequest, *, ttl_ms: int) -> Iterator[Scope]:
    """The scopes of a request by the index. The age of a context is what its time to live has lost."""
    check_age(request.older_than_ms, ttl_ms)
    latest_ms = None if request.older_than_ms is None else index.now_ms() + ttl_ms - request.older_than_ms
    for entry in index.scopes(request.match):
        if latest_ms is None or entry.expires_ms <= latest_ms:
            yield entry.scope


def check_age(older_than_ms: int | None, ttl_ms: int) -> None:
    """SettingsError for an age that no context reaches: it would have expired before."""
    if older_than_ms is not None and older_than_ms >= ttl_ms:
        raise SettingsError(
            "AGE_OVER_TTL",
            f"no context gets {older_than_ms} ms old: workers.context.cache.ttlMs is {ttl_ms}",
            {"older_than_ms": older_than_ms, "ttl_ms": ttl_ms},
        )


def listed_scopes(file: Path) -> Iterator[Scope]:
    """The scopes of a file, one as JSON a line; an error names the line and shows nothing of it."""
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        if line.strip():
            try:
                yield Scope.parse(decode(line))
            except (InvalidJson, DittoError) as problem:
                raise SettingsError("INVALID_SCOPES", f"line {number} is no scope") from problem
