"""Where calls can be traced, and the tracer that does nothing. `open_telemetry.py` has the other one."""

from __future__ import annotations

from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Traces(Protocol):
    """What an application tells a tracer. A tracer never sees content."""

    def starting(self, kind: str, run_id: str, *, ttl_ms: int) -> AbstractContextManager[object]:
        """Around all that starts a run: its tasks belong to one trace, also those that are sent again."""

    def prolong(self, run_id: str, *, ttl_ms: int) -> None:
        """Know the trace of a run that goes on for so long from now."""

    def publishing(
        self, node: str, task_id: str, root_id: str | None, headers: MutableMapping[str, Any]
    ) -> AbstractContextManager[object]:
        """Around one publish; adds to the message's headers what its task needs to go on with the trace.

        What belongs to no trace here, for it is sent again, goes on with that of its run.
        """


class NoTraces:
    """Traces nothing."""

    def starting(self, kind: str, run_id: str, *, ttl_ms: int) -> AbstractContextManager[object]:  # noqa: ARG002 -- the port's signature
        return nullcontext()

    def prolong(self, run_id: str, *, ttl_ms: int) -> None:
        """Nothing is known."""

    def publishing(
        self,
        node: str,  # noqa: ARG002 -- the port's signature
        task_id: str,  # noqa: ARG002 -- the port's signature
        root_id: str | None,  # noqa: ARG002 -- the port's signature
        headers: MutableMapping[str, Any],  # noqa: ARG002 -- the port's signature
    ) -> AbstractContextManager[object]:
        return nullcontext()
