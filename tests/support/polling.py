"""Waiting in tests: a predicate and a deadline, never a sleep of guessed length."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.01  # short against what is waited for, long enough not to starve a two-core machine


def eventually(predicate: Callable[[], T], timeout_s: float = 10.0, *, message: str = "") -> T:
    """The first truthy answer of `predicate`; AssertionError if there is none within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(message or f"not within {timeout_s} s; last answer: {answer!r}")
        time.sleep(POLL_S)
