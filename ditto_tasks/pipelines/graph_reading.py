"""What can be read of runs of graphs: the record, how far it has come, and outputs. It changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Protocol, cast

from ditto_tasks.coordination import BrokerClient
from ditto_tasks.json_values import JsonObject, JsonValue, decode
from ditto_tasks.keys import Keys
from ditto_tasks.lua_running import run_script
from ditto_tasks.pipelines.graph_values import GraphState, Head, NodeTimes, Progress, integer, times_of
from ditto_tasks.redis_replies import text

SCRIPTS: Final = "ditto_tasks.pipelines"
PAGE: Final = 50  # outputs read at once: each may be large


class RecordClient(BrokerClient, Protocol):
    """What records of runs need of a client beside that."""

    def hmget(self, name: str, keys: Sequence[str]) -> list[bytes | None]: ...


@dataclass(frozen=True, slots=True)
class GraphReading:
    """`clients` lends a client of the broker's database."""

    deployment: str
    clients: Callable[[], AbstractContextManager[BrokerClient]]

    def head(self, run: str) -> Head | None:
        """What the record says of the whole run."""
        names = "state", "graph", "parent", "resumes", "error", "scope"
        state, graph, parent, resumes, *values = self._fields(run, *names)
        if state is None:
            return None
        error, scope = (cast("JsonObject | None", decode(value or b"null")) for value in values)
        return Head(
            cast(GraphState, text(state)),
            text(graph or b""),
            text(parent or b""),
            error,
            scope,
            integer(resumes),
        )

    def plan(self, run: str) -> list[tuple[str, str, list[str]]]:
        """(id, node type, dependencies) of each node in the order of declaration; none without a record."""
        (plan,) = self._fields(run, "plan")
        return cast("list[tuple[str, str, list[str]]]", decode(plan or b"[]"))

    def progress(self, run: str) -> Progress | None:
        """How far a run has come, by names and times alone."""
        names = (
            "state",
            "graph",
            "opened",
            "deadline",
            "ended",
            "error",
            "headers",
            "total",
            "todo",
            "failures",
        )
        with self.clients() as client:
            now_ms, values = read_fields(client, self._record(run), names)
        fields = dict(zip(names, values, strict=True))
        if fields["state"] is None:
            return None
        settled = integer(fields["total"]) - integer(fields["todo"]) + integer(fields["failures"] or 0)
        return Progress(
            state=cast(GraphState, text(fields["state"])),
            graph=text(fields["graph"]),
            opened_ms=integer(fields["opened"]),
            deadline_ms=integer(fields["deadline"]),
            ended_ms=None if fields["ended"] is None else integer(fields["ended"]),
            error=cast("JsonObject | None", decode(fields["error"] or b"null")),
            headers=cast(JsonObject, decode(fields["headers"] or b"{}")),
            total=integer(fields["total"]),
            settled=settled,
            now_ms=now_ms,
        )

    def node_times(self, run: str, nodes: Sequence[str]) -> list[NodeTimes]:
        """When each of these nodes was sent, began and ended, and whether it raised."""
        if not nodes:
            return []
        kinds = ("times", "sent", "began", "ended", "raised")
        found = self._fields(run, *(f"{kind}:{node}" for node in nodes for kind in kinds))
        return [times_of(found[start : start + len(kinds)]) for start in range(0, len(found), len(kinds))]

    def outputs(self, run: str, nodes: Sequence[str]) -> dict[str, JsonValue]:
        """The outputs of those of these nodes that have one."""
        found: dict[str, JsonValue] = {}
        for start in range(0, len(nodes), PAGE):
            page = nodes[start : start + PAGE]
            with self.clients() as client:
                values = cast(RecordClient, client).hmget(self._outputs(run), page)
            found |= {
                node: decode(value) for node, value in zip(page, values, strict=True) if value is not None
            }
        return found

    def _fields(self, run: str, *names: str) -> list[bytes | None]:
        with self.clients() as client:
            return cast(RecordClient, client).hmget(self._record(run), names)

    def _record(self, run: str) -> str:
        return Keys(self.deployment).graph(run)

    def _outputs(self, run: str) -> str:
        return Keys(self.deployment).graph_part(run, "outputs")


def read_fields(client: BrokerClient, record: str, names: Sequence[str]) -> tuple[int, list[bytes | None]]:
    """The server's clock in ms, and the values of fields of a record, at one moment."""
    reply = run_script(client, SCRIPTS, "read", [record], *names)
    now, values = cast("tuple[bytes, list[bytes | None]]", reply)
    return integer(now), values
