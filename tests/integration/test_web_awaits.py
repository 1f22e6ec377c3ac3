"""Many awaits in one event loop: all complete, over one subscription, and the loop stays free."""

from benchmarks.awaits import LAG_CEILING_MS, measure

CALLS = 200


def test_many_awaits_leave_the_loop_free() -> None:
    """200 awaits complete over one subscription, with a loop lag p99 below twice the benchmark's ceiling."""
    best = measure(CALLS, rounds=2)
    assert best.completed == CALLS
    assert best.subscriptions <= 1
    assert best.p99_ms < 2 * LAG_CEILING_MS
