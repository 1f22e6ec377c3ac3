"""Whether a process is at work for others than a batch run."""

import pytest

from ditto_tasks.presence import Presence


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nobody_was_there_before_the_first_call(clock: Clock) -> None:
    """A process that has run nothing is at work for nobody."""
    assert not Presence(clock).within(10_000)


def test_a_call_counts_while_it_runs_and_for_a_while(clock: Clock) -> None:
    """However long it takes, and then for as long as was asked for; two of them are not mixed up."""
    presence = Presence(clock)
    presence.begin("a")
    presence.begin("b")
    clock.now_s += 60
    assert presence.within(0)
    presence.end("a")
    presence.end("a")
    clock.now_s += 60
    assert presence.within(0)
    presence.end("b")
    clock.now_s += 1
    assert presence.within(1.5)
    assert not presence.within(0.5)
