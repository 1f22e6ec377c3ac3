"""The short soak: what `make soak` proves at length, small enough for every test run."""

import pytest
from support.soak import Plan, Soak

PLAN = Plan(mutations=2_000, kills=8, freezes=3, lease_ms=1_000)


@pytest.mark.timeout(420)
def test_kills_and_freezes_lose_double_and_disorder_nothing() -> None:
    """Over 2,000 mutations, 8 kills and 3 freezes beyond the lease, no promise to any caller is broken."""
    report = Soak(PLAN).run()
    print("\n".join(report.lines()))  # noqa: T201 -- the figures, beside a failure
    assert report.verdict.is_clean(), report.lines()
    assert report.mutations >= PLAN.mutations
    assert (report.faults["kills"], report.faults["freezes"]) == (PLAN.kills, PLAN.freezes)
    assert set(report.failures) <= {"CONTEXT_NOT_FOUND"}  # a read before anybody wrote
