"""Cooperative cancellation: the work asks at its check points whether it should stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ditto_tasks.errors import Cancelled, DittoError


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


_current: ContextVar[CancelToken | None] = ContextVar("current_token", default=None)


def current_token() -> CancelToken:
    """The token of the call that is at work, for code behind a port that passes none."""
    return _current.get() or CancelToken()


@contextmanager
def working_for(token: CancelToken | None) -> Iterator[None]:
    """Make the token the current one for as long as the block runs."""
    before = _current.set(token)
    try:
        yield
    finally:
        _current.reset(before)


def public_reason(error: Exception, token: CancelToken | None) -> Exception:
    """The error itself; where it is a caller's own reason, whose text is not ours to show, a `Cancelled`."""
    if token is not None and error is token.reason and not isinstance(error, DittoError):
        return Cancelled()
    return error


def admit_all() -> None:
    """The admission of a call that nobody stops."""


def checkpoint(call: CancelToken | None) -> None:
    """A check point of a call that may have no token."""
    if call is not None:
        call.raise_if_cancelled()
