"""Which worker should hold which shard."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ditto_tasks.worker.assignment import assign

NAMES = st.text(min_size=1, max_size=20)
WORKERS = st.lists(NAMES, min_size=1, max_size=16, unique=True)


@given(WORKERS, st.integers(1, 256))
def test_every_shard_has_one_worker_and_loads_differ_by_one(workers: list[str], count: int) -> None:
    """All shards are given out, and nobody has two more than another: the best that is possible."""
    owners = assign(workers, count)
    loads = Counter(dict.fromkeys(workers, 0)) + Counter()
    loads.update(owners.values())
    assert sorted(owners) == list(range(count))
    assert set(owners.values()) <= set(workers)
    assert max(loads.values()) <= -(-count // len(workers))
    assert min(loads.get(name, 0) for name in workers) >= count // len(workers)


@given(WORKERS, st.integers(1, 256))
def test_a_newcomer_moves_no_more_than_its_own_part(workers: list[str], count: int) -> None:
    """As workers join one by one, each join moves at most N/k shards, and all of them to the newcomer."""
    owners = assign(workers[:1], count)
    for before, after in pairwise(range(1, len(workers) + 1)):
        joined = assign(workers[:after], count, owners)
        moved = {shard for shard in owners if owners[shard] != joined[shard]}
        assert {joined[shard] for shard in moved} <= {workers[before]}
        assert len(moved) <= 1.25 * count / after
        owners = joined


@given(WORKERS.filter(lambda names: len(names) > 1), st.integers(1, 256))
def test_a_death_moves_only_the_shards_of_the_dead(workers: list[str], count: int) -> None:
    """When one of a balanced set of workers is gone, nobody else's shards move."""
    owners = assign(workers, count)
    left = assign(workers[1:], count, owners)
    assert [shard for shard in owners if owners[shard] != workers[0] and owners[shard] != left[shard]] == []


@given(WORKERS, st.integers(1, 64), st.dictionaries(st.integers(0, 63), NAMES))
def test_what_is_assigned_stays(workers: list[str], count: int, held: dict[int, str]) -> None:
    """Whatever was held before, the assignment is a fixed point: nothing moves without a cause."""
    owners = assign(workers, count, {shard: name for shard, name in held.items() if shard < count})
    assert assign(workers, count, owners) == owners


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b", "a"]])
def test_the_order_of_workers_does_not_matter(order: list[str]) -> None:
    """Every worker computes the same, in whatever order it was told who lives."""
    assert assign(order, 64) == assign(["b", "c", "a"], 64)


def test_neighbours_are_spread() -> None:
    """Who gets a shard is a matter of both names: no worker's shards are one block of numbers."""
    owners = assign(["a", "b"], 64)
    assert {owners[shard] for shard in range(16)} == {owners[shard] for shard in range(48, 64)} == {"a", "b"}


def test_without_workers_nobody_has_anything() -> None:
    """No live worker, no assignment."""
    assert assign([], 64) == {}
