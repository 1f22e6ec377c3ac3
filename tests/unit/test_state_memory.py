"""What the in-memory store alone promises: exact times, and which entry goes when it is full."""

import pytest
from support.states import context_of, operation, refused

from ditto_tasks.cancellation import CancelToken
from ditto_tasks.models import Scope
from ditto_tasks.state.memory import InMemoryContextStore
from ditto_tasks.state.operations import LOG_TTL_MS

A, B, C, D = (Scope(session_id=name) for name in "abcd")


class Clock:
    """Milliseconds that pass when the test says so."""

    def __init__(self) -> None:
        self.ms = 1_000.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def test_an_entry_is_dead_exactly_at_its_ttl(clock: Clock) -> None:
    """A millisecond before write + ttl a state is there, and at that millisecond it is gone."""
    store = InMemoryContextStore(ttl_ms=100, now=clock)
    store.compare_and_set(A, None, context_of("x"))
    clock.ms += 99
    assert store.get(A) is not None
    clock.ms += 1
    assert store.get(A) is None


def test_reading_does_not_extend_the_ttl_and_writing_does(clock: Clock) -> None:
    """The time to live runs from the last write."""
    store = InMemoryContextStore(ttl_ms=100, now=clock)
    written = store.compare_and_set(A, None, context_of("x"))
    clock.ms += 60
    store.get(A)
    store.compare_and_set(A, written.version, context_of("y"))
    clock.ms += 60
    assert store.get(A) is not None
    clock.ms += 40
    assert store.get(A) is None


def test_the_same_frozen_object_is_returned(clock: Clock) -> None:
    """Reading twice gives one object, which nobody can change."""
    store = InMemoryContextStore(now=clock)
    written = store.compare_and_set(A, None, context_of("x", content={"k": []}))
    assert store.get(A) is written
    content = written.context.items[0].content
    assert isinstance(content, dict)
    with pytest.raises(TypeError):
        content["k"] = 1


def test_the_least_recently_used_entry_goes(clock: Clock) -> None:
    """A full store drops the entry that was read or written longest ago."""
    store = InMemoryContextStore(max_entries=2, now=clock)
    store.compare_and_set(A, None, context_of("a"))
    store.compare_and_set(B, None, context_of("b"))
    store.get(A)
    store.compare_and_set(C, None, context_of("c"))
    assert [store.get(scope) is not None for scope in (A, B, C)] == [True, False, True]


def test_dead_entries_go_before_living_ones(clock: Clock) -> None:
    """When an expired entry can make room, no living one is dropped, even if it was used longer ago."""
    store = InMemoryContextStore(ttl_ms=100, max_entries=2, now=clock)
    first = store.compare_and_set(A, None, context_of("a"))
    clock.ms += 10
    store.compare_and_set(B, None, context_of("b"))
    clock.ms += 85
    store.compare_and_set(A, first.version, context_of("a"))
    store.get(B)
    clock.ms += 20  # B is dead now and was used last
    store.compare_and_set(C, None, context_of("c"))
    assert [store.get(scope) is not None for scope in (A, B, C)] == [True, False, True]


def test_rewriting_an_entry_drops_no_other(clock: Clock) -> None:
    """A write to a scope that is stored needs no room."""
    store = InMemoryContextStore(max_entries=2, now=clock)
    store.compare_and_set(A, None, context_of("a"))
    written = store.compare_and_set(B, None, context_of("b"))
    store.compare_and_set(B, written.version, context_of("b"))
    assert store.get(A) is not None


def test_a_cancelled_call_reads_and_writes_nothing(clock: Clock) -> None:
    """The reason of a cancelled call is raised before anything else is looked at."""
    store, reason, call = InMemoryContextStore(now=clock), KeyError("why"), CancelToken()
    call.cancel(reason)
    for attempt in (
        lambda: store.get("no scope", call),
        lambda: store.compare_and_set(A, None, context_of("a"), call),
    ):
        with pytest.raises(KeyError) as caught:
            attempt()
        assert caught.value is reason
    assert store.get(A) is None


def test_logs_expire_after_a_day(clock: Clock) -> None:
    """An operation is forgotten, and its epoch with it, a day after the last one of its scope."""
    store = InMemoryContextStore(now=clock)
    store.refuse(A, operation("1", epoch=5), code="MISSING_ITEM")
    clock.ms += LOG_TTL_MS - 1
    assert store.recall(A, operation("1")) is not None
    clock.ms += 1
    assert store.recall(A, operation("1")) is None
    assert store.refuse(A, operation("2", epoch=4), code="X").replayed is False


def test_logs_are_bounded_too(clock: Clock) -> None:
    """No more scopes have logs than may have states."""
    store = InMemoryContextStore(max_entries=2, now=clock)
    for scope in (A, B, C, D):
        store.refuse(scope, operation("1"), code="X")
    assert [store.recall(scope, operation("1")) is not None for scope in (A, B, C, D)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("entries", [0, -1, 1.5, True, None, "2", 2**53])
def test_a_bad_number_of_entries_is_refused(entries: object) -> None:
    """maxEntries is a positive safe integer."""
    refused(lambda: InMemoryContextStore(max_entries=entries), "INVALID_INPUT")


def test_a_whole_float_counts_as_a_number(clock: Clock) -> None:
    """2.0 entries are 2, as JSON has one kind of number."""
    store = InMemoryContextStore(max_entries=1.0, ttl_ms=100.0, now=clock)
    store.compare_and_set(A, None, context_of("a"))
    store.compare_and_set(B, None, context_of("b"))
    assert store.get(A) is None
