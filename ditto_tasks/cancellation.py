"""Cooperative cancellation: the work asks at its check points whether it should stop."""

from __future__ import annotations

from ditto_tasks.errors import Cancelled


class CancelToken:
    """Passed down a call; whoever holds it can cancel once, and the first reason stays.

    Thread-safe: `_reason` is written once by one assignment.
    """

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: BaseException | None = None

    def cancel(self, reason: BaseException | None = None) -> None:
        """Ask the work to stop; `reason` is what it will raise (default `Cancelled`)."""
        if self._reason is None:
            self._reason = Cancelled() if reason is None else reason

    @property
    def cancelled(self) -> bool:
        return self._reason is not None

    @property
    def reason(self) -> BaseException | None:
        return self._reason

    def raise_if_cancelled(self) -> None:
        """Raise the reason, unchanged, once `cancel` was called."""
        if self._reason is not None:
            raise self._reason


def admit_all() -> None:
    """The admission of a call that nobody stops."""


def checkpoint(call: CancelToken | None) -> None:
    """A check point of a call that may have no token."""
    if call is not None:
        call.raise_if_cancelled()
