"""Many awaits in one event loop: all complete, over one subscription, and the loop stays free."""

from benchmarks.awaits import LAG_CEILING_MS, measure

CALLS = 200
LONGEST_MS = 500.0  # one stop, which a percentile does not see; busy machines make short ones


def test_many_awaits_leave_the_loop_free() -> None:
    """200 awaits complete over one subscription, lag p99 within twice the ceiling, and no long stop."""
    best = measure(CALLS, rounds=2)
    assert best.completed == CALLS
    assert best.subscriptions <= 1
    assert best.p99_ms < 2 * LAG_CEILING_MS
    assert best.longest_ms < LONGEST_MS
