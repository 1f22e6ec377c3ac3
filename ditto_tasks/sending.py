"""What a caller is told of a broker that is away, refuses it, or whose reply was lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from kombu.exceptions import OperationalError

from ditto_tasks.errors import DittoError

DRIVER: Final = "redis"  # by name, as below: importing the driver is for those who connect
REFUSALS: Final = frozenset({"AuthenticationError", "ResponseError"})
REPEAT: Final = "it may have been sent: repeating it with the same operation id, task id or run id is safe"


class BrokerError(DittoError, OperationalError):
    """The broker did not take a call. `details["sent"]` is "no", or "unknown" where it may have been sent."""


@dataclass(slots=True)
class _Attempt:
    begun: bool = False


_attempt: Final[ContextVar[_Attempt | None]] = ContextVar("ditto_attempt", default=None)


def note_begun() -> None:
    """From here on the server may have got something of the call: there is a connection to it."""
    attempt = _attempt.get()
    if attempt is not None:
        attempt.begun = True


@contextmanager
def typed_broker_errors() -> Iterator[None]:
    """Turns errors of the broker's connection into BrokerError, without the driver's text; all others pass.

    A block within another one is a part of what that one attempts.
    """
    attempt = _attempt.get() or _Attempt()
    token = _attempt.set(attempt)
    try:
        yield
    except Exception as error:
        if isinstance(error, DittoError) or not _is_brokers(error):
            raise
        raise _typed(error, begun=attempt.begun) from None  # its text may hold an address
    finally:
        _attempt.reset(token)


def _is_brokers(error: Exception) -> bool:
    return isinstance(error, OperationalError | OSError) or type(error).__module__.startswith(f"{DRIVER}.")


def _typed(error: Exception, *, begun: bool) -> BrokerError:
    cause = error.__cause__ if isinstance(error, OperationalError) and error.__cause__ else error
    kinds = [kind.__name__ for kind in type(cause).__mro__]
    if REFUSALS.intersection(kinds):
        code, reason = "BROKER_REFUSED", f"the broker refuses the credential or the command ({kinds[0]})"
    elif begun:
        code, reason = "BROKER_OUTCOME_UNKNOWN", f"the broker's reply was lost ({kinds[0]})"
    else:
        code, reason = "BROKER_UNAVAILABLE", f"the broker cannot be reached ({kinds[0]})"
    then = REPEAT if begun else "nothing was sent"
    return BrokerError(code, f"{reason}; {then}", {"sent": "unknown" if begun else "no"})
