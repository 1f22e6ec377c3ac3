"""The plan of a batch run: what may be out at a time, how much at once, and that nothing is forgotten."""

import sys
from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_tasks.batch.pacing import Pace
from ditto_tasks.batch.planning import LARGE, SHARD_DEPTH, SMALL, Caps, Planned, Planner, Sizing
from ditto_tasks.canonical import scope_key
from ditto_tasks.models import Scope
from ditto_tasks.sharding import shard_of

SHARDS = 16
CAPS = Caps(shards=2, scans=1)
MANY = 100  # calls that may be out


def scopes(number: int) -> list[Scope]:
    return [Scope(session_id=f"s{place}") for place in range(number)]


def of_one_shard(number: int) -> list[Scope]:
    """So many scopes of the first shard."""
    found = (Scope(session_id=f"s{place}") for place in count())
    first = (scope for scope in found if shard_of(scope_key(scope), SHARDS) == 0)
    return [next(first) for _ in range(number)]


def planner(caps: Caps = CAPS) -> Planner:
    return Planner(caps, SHARDS)


@pytest.mark.parametrize("sizing", [SMALL, LARGE])
def test_scans_come_first_and_hold_a_bounded_number_of_scopes(sizing: Sizing) -> None:
    """A scope is scanned before anything else; one scan is out at a time, of so many scopes at most."""
    plan = planner()
    plan.read(scopes(sizing.scan + 5))
    (first,) = plan.next(MANY, sizing)
    assert (len(first.scopes), first.shard) == (sizing.scan, None)
    assert list(plan.next(MANY, sizing)) == []
    plan.settle(first)
    assert [len(planned.scopes) for planned in plan.next(MANY, sizing)] == [5]


@pytest.mark.parametrize("sizing", [SMALL, LARGE])
def test_few_shards_are_busy_and_none_is_deep(sizing: Sizing) -> None:
    """Only `shards` shards have calls of the run, each at most SHARD_DEPTH, of so many scopes at most."""
    plan = planner()
    for scope in scopes(500):
        plan.compress(scope)
    out = list(plan.next(MANY, sizing))
    by_shard = Counter(planned.shard for planned in out)
    assert (len(by_shard), set(by_shard.values())) == (2, {SHARD_DEPTH})
    assert {len(planned.scopes) for planned in out} == {sizing.compress}


def test_an_empty_shard_makes_room_for_another() -> None:
    """A shard that the run has nothing left for gives its place to the next one."""
    plan = planner(Caps(shards=1, scans=1))
    first, *others = scopes(60)
    plan.compress(first)
    (sent,) = plan.next(MANY, SMALL)
    for scope in others:
        plan.compress(scope)
    elsewhere = [planned for planned in plan.next(MANY, SMALL) if planned.shard != sent.shard]
    assert elsewhere == []
    plan.settle(sent)
    assert len({planned.shard for planned in plan.next(MANY, SMALL)}) <= 1


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_the_pace_allows_is_out(most: int) -> None:
    """It counts scans and compressions together."""
    plan = planner(Caps(shards=8, scans=8))
    plan.read(scopes(100))
    for scope in scopes(100):
        plan.compress(scope)
    assert len(list(plan.next(most, SMALL))) == most == plan.outstanding
    assert list(plan.next(most, SMALL)) == []


def test_scopes_of_a_shard_go_together() -> None:
    """They wait for each other while there is something to read, and then no longer."""
    few, sizing = of_one_shard(3), Sizing(scan=1, compress=3, tokens=100)
    plan = planner()
    plan.read(scopes(2))
    plan.compress(few[0])
    plan.compress(few[1])
    assert [planned.shard for planned in plan.next(MANY, sizing)] == [None]
    plan.compress(few[2])
    assert [planned.scopes for planned in plan.next(MANY, sizing)] == [tuple(few)]
    plan = planner()
    plan.compress(few[0])
    assert [planned.scopes for planned in plan.next(MANY, sizing)] == [(few[0],)]


def test_large_scopes_go_alone() -> None:
    """A call has no more tokens than it may have, unless it is one scope's; the order stays."""
    few, tokens = of_one_shard(5), [60, 40, 1, sys.maxsize, 5]
    plan = planner()
    for scope, size in zip(few, tokens, strict=True):
        plan.compress(scope, size)
    sent = []
    while not plan.is_done:
        for planned in plan.next(1, Sizing(scan=1, compress=8, tokens=100)):
            plan.settle(planned)
            sent.append(planned.scopes)
    assert sent == [tuple(few[:2]), (few[2],), (few[3],), (few[4],)]


@given(
    st.lists(st.sampled_from(["unchanged", "over", "unread"]), max_size=120),
    st.randoms(),
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from([SMALL, LARGE])), min_size=1),
)
def test_every_scope_ends_once_whatever_the_order_of_answers(
    fates: list[str], random: object, paces: list[tuple[int, Sizing]]
) -> None:
    """Scopes that are over budget, or were not reached, are sent again until each has ended, at any pace."""
    plan, ended = planner(), Counter[str]()
    fate = {f"s{number}": what for number, what in enumerate(fates)}
    plan.read(scopes(len(fates)))
    out: list[Planned] = list(plan.next(*paces[0]))
    while out:
        planned = out.pop(random.randrange(len(out)))  # type: ignore[attr-defined]  # hypothesis's Random
        plan.settle(planned)
        for scope in planned.scopes:
            name = str(scope.session_id)
            if planned.shard is None and fate[name] == "unread":
                fate[name] = "unchanged"
                plan.read([scope])
            elif planned.shard is None and fate[name] == "over":
                plan.compress(scope, len(name))
            else:
                ended[name] += 1
        out += plan.next(*random.choice(paces))  # type: ignore[attr-defined]  # as above
    assert plan.is_done
    assert ended == Counter(fate.keys())


def test_a_run_takes_more_with_each_answer_while_nobody_else_is_at_work() -> None:
    """It starts with the least and doubles up to the most."""
    pace = Pace(least=1, most=6, quiet_s=5)
    limits = [pace.limit]
    for _ in range(4):
        pace.heard(beside=False, now_s=0)
        limits.append(pace.limit)
    assert (limits, pace.is_least) == ([1, 2, 4, 6, 6], False)


def test_a_run_gives_way_to_others_at_once_and_for_a_while() -> None:
    """One answer from a worker with other calls is enough; later ones change nothing until it is quiet."""
    pace = Pace(least=1, most=8, quiet_s=5)
    for now_s in (0, 0.1, 0.2):
        pace.heard(beside=False, now_s=now_s)
    assert not pace.gives_way
    pace.heard(beside=True, now_s=1)
    assert (pace.limit, pace.is_least, pace.gives_way) == (1, True, True)
    pace.heard(beside=False, now_s=5.9)
    assert (pace.limit, pace.gives_way) == (1, True)
    pace.heard(beside=False, now_s=6)
    assert (pace.limit, pace.gives_way) == (2, False)


def test_the_least_is_never_more_than_the_most() -> None:
    """Settings may contradict each other: the smaller one holds."""
    pace = Pace(least=4, most=2, quiet_s=5)
    pace.heard(beside=False, now_s=0)
    assert (pace.limit, pace.is_least) == (2, True)
