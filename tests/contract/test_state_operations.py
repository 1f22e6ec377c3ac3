"""What every `OperationLog` does: a mutation has its effect once, whoever delivers it again and when."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from support.states import (
    OTHER_SCOPE,
    SCOPE,
    SERVERS,
    Backend,
    Store,
    committing,
    context_of,
    ids_of,
    operation,
    refused,
    with_item,
)

from ditto_tasks.models import Scope
from ditto_tasks.state.base import Operation, Outcome
from ditto_tasks.state.encoding import tombstones_of
from ditto_tasks.state.operations import LOG_TTL_MS


def commit(store: Store, done: Operation, *ids: str) -> Outcome:
    """Replace whatever is stored by items with these ids, as an operation."""
    stored = store.get(SCOPE)
    expected = stored.version if stored else None
    return store.commit(SCOPE, done, expected_version=expected, next=context_of(*ids))


def stored_ids(store: Store) -> list[str]:
    """The ids of the stored items."""
    stored = store.get(SCOPE)
    return ids_of(stored.context) if stored else []


def test_a_commit_writes_and_is_remembered(states: Backend) -> None:
    """A commit stores the context under the version of its outcome, and recall knows it."""
    store = states.store()
    done = commit(store, operation("1"), "a")
    stored = store.get(SCOPE)
    assert stored is not None
    assert done == Outcome(version=stored.version, current_version=stored.version)
    assert store.recall(SCOPE, operation("1")) == Outcome(
        version=stored.version, replayed=True, current_version=stored.version
    )


@pytest.mark.parametrize("state_backend", SERVERS, indirect=True)  # memory keeps no tombstones
def test_nothing_is_created_for_the_erased(states: Backend) -> None:
    """While a tombstone of the session or of its tenant stands, a commit on nothing is refused."""
    assert states.admin is not None
    scope, store = Scope(session_id="acme:1"), states.store()
    tombstones = tombstones_of(scope)
    assert len(tombstones) == 2
    for number, key in enumerate(tombstones):
        states.admin.set(key, "1", px=60_000)
        call = partial(
            store.commit, scope, operation(str(number)), expected_version=None, next=context_of("a")
        )
        refused(call, "ERASED")
        assert store.get(scope) is None
        states.admin.delete(key)
    assert store.commit(scope, operation("9"), expected_version=None, next=context_of("a")).version


def test_an_unknown_operation_has_no_outcome(states: Backend) -> None:
    """Recalling what was never done gives None, also for another scope's operation."""
    store = states.store()
    commit(store, operation("1"), "a")
    assert store.recall(SCOPE, operation("2")) is None
    assert store.recall(OTHER_SCOPE, operation("1")) is None


def test_a_repeated_commit_has_no_second_effect(states: Backend) -> None:
    """The second delivery learns the first one's version and changes nothing, whatever it would write."""
    store = states.store()
    first = commit(store, operation("1"), "a")
    later = commit(store, operation("2"), "a", "b")
    again = commit(store, operation("1"), "doubled")
    assert again == Outcome(version=first.version, replayed=True, current_version=later.version)
    assert stored_ids(store) == ["a", "b"]


def test_a_repeated_commit_is_answered_before_its_version_is_looked_at(states: Backend) -> None:
    """A second delivery that names the version it once read is a replay and no conflict."""
    store = states.store()
    first = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))
    again = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("a"))
    assert (again.version, again.replayed) == (first.version, True)


def test_an_id_with_another_input_is_a_mismatch(states: Backend) -> None:
    """The same id with another input hash is OPERATION_MISMATCH for commit, refuse and recall."""
    store = states.store()
    commit(store, operation("1"), "a")
    other = operation("1", input_hash="f" * 64)
    refused(lambda: commit(store, other, "b"), "OPERATION_MISMATCH")
    refused(lambda: store.refuse(SCOPE, other, code="MISSING_ITEM"), "OPERATION_MISMATCH")
    refused(lambda: store.recall(SCOPE, other), "OPERATION_MISMATCH")
    assert stored_ids(store) == ["a"]


def test_a_refused_operation_stays_refused(states: Backend) -> None:
    """Redelivered after a later operation made it possible, a refused operation is still refused."""
    store = states.store()
    commit(store, operation("1"), "a")
    first = store.refuse(SCOPE, operation("2"), code="MISSING_ITEM")
    commit(store, operation("3"), "a", "b")
    again = commit(store, operation("2"), "a")
    assert (first.code, first.replayed) == ("MISSING_ITEM", False)
    assert (again.code, again.version, again.replayed) == ("MISSING_ITEM", None, True)
    assert stored_ids(store) == ["a", "b"]


def test_a_committed_operation_is_not_refused_later(states: Backend) -> None:
    """Refusing a committed operation gives its committed outcome."""
    store = states.store()
    done = commit(store, operation("1"), "a")
    assert store.refuse(SCOPE, operation("1"), code="MISSING_ITEM").version == done.version


def test_a_conflict_leaves_the_operation_open(states: Backend) -> None:
    """A conflict writes and records nothing, so that it can be recorded as refused or tried again."""
    store = states.store()
    commit(store, operation("1"), "a")
    stale = "00000000-0000-4000-8000-000000000000"
    error = refused(
        lambda: store.commit(SCOPE, operation("2"), expected_version=stale, next=context_of("b")),
        "STATE_CONFLICT",
    )
    stored = store.get(SCOPE)
    assert stored is not None
    assert error.details == {"current_version": stored.version}
    assert store.recall(SCOPE, operation("2")) is None
    assert commit(store, operation("2"), "a", "b").replayed is False


def test_an_operation_survives_a_foreign_write(states: Backend) -> None:
    """After a writer that knows nothing of operations has replaced the state, a redelivery is a replay."""
    store = states.store()
    first = commit(store, operation("1"), "a")
    foreign = store.compare_and_set(SCOPE, first.version, context_of("foreign"))
    again = commit(store, operation("1"), "a")
    assert again == Outcome(version=first.version, replayed=True, current_version=foreign.version)
    assert stored_ids(store) == ["foreign"]


def test_a_stale_owner_is_fenced(states: Backend) -> None:
    """Once a newer epoch has worked on a scope, an older one is FENCED for commit and refuse."""
    store = states.store()
    commit(store, operation("1", epoch=1_800_000_000_001), "a")
    stale = operation("2", epoch=1_800_000_000_000)
    refused(lambda: commit(store, stale, "b"), "FENCED")
    refused(lambda: store.refuse(SCOPE, stale, code="MISSING_ITEM"), "FENCED")
    assert store.recall(SCOPE, stale) is None
    assert stored_ids(store) == ["a"]


def test_a_refusal_carries_its_epoch(states: Backend) -> None:
    """A newer owner that only refused something fences older ones too."""
    store = states.store()
    store.refuse(SCOPE, operation("1", epoch=10), code="CONTEXT_NOT_FOUND")
    older = operation("2", epoch=9)  # as text it would be the newer one
    refused(lambda: commit(store, older, "a"), "FENCED")
    refused(lambda: store.refuse(SCOPE, older, code="MISSING_ITEM"), "FENCED")


def test_a_stale_owner_learns_the_recorded_outcome(states: Backend) -> None:
    """An older epoch that repeats a done operation gets its outcome, and so reports what the state says."""
    store = states.store()
    first = commit(store, operation("1", epoch=1), "a")
    store.refuse(SCOPE, operation("2", epoch=2), code="MISSING_ITEM")
    assert commit(store, operation("1", epoch=1), "b").version == first.version
    assert store.recall(SCOPE, operation("1", epoch=1)) is not None
    assert commit(store, operation("2", epoch=1), "b").code == "MISSING_ITEM"


def test_fencing_comes_before_the_version(states: Backend) -> None:
    """A stale owner with a stale version is FENCED and not told of a conflict."""
    store = states.store()
    commit(store, operation("1", epoch=2), "a")
    stale = operation("2", epoch=1)
    refused(lambda: store.commit(SCOPE, stale, expected_version=None, next=context_of("b")), "FENCED")


def test_an_equal_or_newer_epoch_goes_on(states: Backend) -> None:
    """Operations of one owner follow each other under one epoch, and those of the next under its own."""
    store = states.store()
    commit(store, operation("1", epoch=5), "a")
    assert commit(store, operation("2", epoch=5), "b").version
    assert commit(store, operation("3", epoch=10), "c").version


def test_a_stale_owner_is_fenced_after_800_later_operations(states: Backend) -> None:
    """A delivery of an old owner changes nothing even when its operation has been forgotten."""
    store = states.store()
    commit(store, operation("first", epoch=1), "a")
    many_commits(store, 800, epoch=2)
    assert store.recall(SCOPE, operation("first")) is None
    before = store.get(SCOPE)
    refused(lambda: commit(store, operation("first", epoch=1), "doubled"), "FENCED")
    assert store.get(SCOPE) == before


def test_the_newest_512_operations_are_known(states: Backend) -> None:
    """Of 800 operations the newest 512 have their outcomes, and the log does not grow with all of them."""
    store = states.store()
    versions = many_commits(store, 800)
    found = [store.recall(SCOPE, operation(f"n{number}")) for number in range(800)]
    assert [outcome.version for outcome in found[-512:] if outcome] == versions[-512:]
    assert sum(outcome is not None for outcome in found) <= 512 + 128


def many_commits(store: Store, count: int, *, epoch: int = 0) -> list[str | None]:
    """That many commits, one after another; their versions."""
    return [commit(store, operation(f"n{number}", epoch=epoch), "a").version for number in range(count)]


def test_fewer_operations_can_be_kept(states: Backend) -> None:
    """With operation_ids=2 the third operation takes the first one's place."""
    store = states.store(operation_ids=2)
    for id_ in "abc":
        commit(store, operation(id_), id_)
    assert [store.recall(SCOPE, operation(id_)) is not None for id_ in "abc"] == [False, True, True]


@pytest.mark.parametrize("id_", ["lone \ud800", "x" * 10_000, " ", "a b c", "你好", "\x00", "epoch", "count"])
def test_ids_are_any_text(states: Backend, id_: str) -> None:
    """An operation may have any id, also one that is a name in the log's own layout."""
    store = states.store()
    first = commit(store, operation(id_), "a")
    assert commit(store, operation(id_), "b").version == first.version
    assert store.recall(SCOPE, operation(id_ + " ")) is None


def test_racing_deliveries_of_one_operation_apply_it_once(states: Backend) -> None:
    """Of 16 concurrent deliveries one writes, and all report the version that it wrote."""
    store = states.store()
    base = store.compare_and_set(SCOPE, None, context_of("a"))
    appended = with_item(base.context, "b")
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda _: deliver(store, base.version, appended), range(16)))
    stored = store.get(SCOPE)
    assert stored is not None
    assert {outcome.version for outcome in outcomes} == {stored.version}
    assert [outcome.replayed for outcome in outcomes].count(False) == 1
    assert ids_of(stored.context) == ["a", "b"]


def deliver(store: Store, version: str, appended: object) -> Outcome:
    """One delivery of one and the same operation."""
    return store.commit(SCOPE, operation("1"), expected_version=version, next=appended)


def test_outcomes_outlive_a_short_state(states: Backend) -> None:
    """The log of a state that lives milliseconds is kept for a day, so that a redelivery is still known."""
    store = states.store(ttl_ms=1)
    first = commit(store, operation("1"), "a")
    again = store.commit(SCOPE, operation("1"), expected_version=None, next=context_of("b"))
    assert again.version == first.version
    if states.admin is not None:
        (key,) = states.admin.keys("ditto:context:ops:*")
        assert LOG_TTL_MS - 60_000 < states.admin.pttl(key) <= LOG_TTL_MS


@pytest.mark.parametrize("version", ["", 7], ids=repr)
def test_a_commit_expects_a_nonempty_version(states: Backend, version: object) -> None:
    """Any other expected version is INVALID_INPUT and is not recorded."""
    store = states.store()
    call = committing(store, "1", version, "a")
    refused(call, "INVALID_INPUT")
    assert store.recall(SCOPE, operation("1")) is None
