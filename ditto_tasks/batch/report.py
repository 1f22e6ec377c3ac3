"""The report of a run: one JSON object a line and scope, and the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from ditto_tasks.batch.models import Row
from ditto_tasks.json_values import JsonObject, JsonValue, encode
from ditto_tasks.models import to_wire


@dataclass(slots=True)
class Report:
    """Writes each scope's row once, to the disk at the latest when it is closed.

    `names` maps scope hashes to scopes as JSON, for whoever wants them in the report.
    """

    file: BinaryIO
    names: dict[str, JsonValue] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    by_status: Counter[str] = field(default_factory=Counter)
    tokens_saved: int = 0

    def write(self, rows: Iterable[Row]) -> int:
        """Write those that were not yet written; returns their number."""
        fresh = [row for row in rows if row.scope not in self.written]
        for row in fresh:
            self.written.add(row.scope)
            self.by_status[row.status] += 1
            self.tokens_saved += _saved(row)
            self.file.write(encode(self._line(row)) + b"\n")
        self.file.flush()
        return len(fresh)

    def _line(self, row: Row) -> JsonObject:
        line: JsonObject = dict(to_wire(row))  # type: ignore[arg-type]  # a model's wire form is an object
        if row.scope in self.names:
            line["name"] = self.names[row.scope]
        return line


def _saved(row: Row) -> int:
    if row.before is None or row.after is None:
        return 0
    return (row.before.tokens or 0) - (row.after.tokens or 0)
