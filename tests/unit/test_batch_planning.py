"""The plan of a batch run: what may be out at a time, and that nothing is forgotten."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_tasks.batch.planning import SCAN_SCOPES, SHARD_DEPTH, Caps, Planned, Planner
from ditto_tasks.models import Scope

SHARDS = 16
CAPS = Caps(outstanding=100, shards=2, scans=1)


def scopes(count: int) -> list[Scope]:
    return [Scope(session_id=f"s{number}") for number in range(count)]


def planner(caps: Caps = CAPS) -> Planner:
    return Planner(caps, SHARDS)


def test_scans_come_first_and_hold_a_bounded_number_of_scopes() -> None:
    """A scope is scanned before anything else; one scan is out at a time, of at most SCAN_SCOPES scopes."""
    plan = planner()
    plan.read(scopes(SCAN_SCOPES + 5))
    (first,) = plan.next()
    assert (len(first.scopes), first.shard) == (SCAN_SCOPES, None)
    assert list(plan.next()) == []
    plan.settle(first)
    assert [len(planned.scopes) for planned in plan.next()] == [5]


def test_few_shards_are_busy_and_none_is_deep() -> None:
    """Only `shards` shards have calls of the run, each at most SHARD_DEPTH."""
    plan = planner()
    for scope in scopes(200):
        plan.compress(scope)
    out = Counter(planned.shard for planned in plan.next())
    assert (len(out), set(out.values())) == (2, {SHARD_DEPTH})


def test_an_empty_shard_makes_room_for_another() -> None:
    """A shard that the run has nothing left for gives its place to the next one."""
    plan = planner(Caps(outstanding=100, shards=1, scans=1))
    first, *others = scopes(60)
    plan.compress(first)
    (sent,) = plan.next()
    for scope in others:
        plan.compress(scope)
    elsewhere = [planned for planned in plan.next() if planned.shard != sent.shard]
    assert elsewhere == []
    plan.settle(sent)
    assert len({planned.shard for planned in plan.next()}) <= 1


@pytest.mark.parametrize("outstanding", [1, 3])
def test_no_more_than_the_cap_is_outstanding(outstanding: int) -> None:
    """The cap counts scans and compressions together."""
    plan = planner(Caps(outstanding=outstanding, shards=8, scans=8))
    plan.read(scopes(100))
    for scope in scopes(100):
        plan.compress(scope)
    assert len(list(plan.next())) == outstanding == plan.outstanding


@given(st.lists(st.sampled_from(["unchanged", "over", "unread"]), max_size=120), st.randoms())
def test_every_scope_ends_once_whatever_the_order_of_answers(fates: list[str], random: object) -> None:
    """Scopes that are over budget, or were not reached by a scan, are sent again until each has ended."""
    plan, ended = planner(), Counter[str]()
    fate = {f"s{number}": what for number, what in enumerate(fates)}
    plan.read(scopes(len(fates)))
    out: list[Planned] = list(plan.next())
    while out:
        planned = out.pop(random.randrange(len(out)))  # type: ignore[attr-defined]  # hypothesis's Random
        plan.settle(planned)
        for scope in planned.scopes:
            name = str(scope.session_id)
            if planned.shard is None and fate[name] == "unread":
                fate[name] = "unchanged"
                plan.read([scope])
            elif planned.shard is None and fate[name] == "over":
                plan.compress(scope)
            else:
                ended[name] += 1
        out += plan.next()
    assert plan.is_done
    assert ended == Counter(fate.keys())
