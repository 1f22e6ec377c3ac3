"""What every `ContextStateStore` does, wherever it keeps its states."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.polling import eventually
from support.states import OTHER_SCOPE, SCOPE, Backend, Store, context_of, ids_of, refused, with_item

from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope
from ditto_tasks.state.base import ContextStateStore, OperationLog, StoredContext

SHORT_TTL_MS = 80


def test_an_unwritten_scope_holds_nothing(states: Backend) -> None:
    """Reading a scope that was never written gives None and creates nothing."""
    assert states.store().get(SCOPE) is None


def test_what_was_written_is_read(states: Backend) -> None:
    """A written context comes back equal, under the version that the write returned, a UUID 4."""
    store = states.store()
    written = store.compare_and_set(SCOPE, None, context_of("a", "b"))
    assert store.get(SCOPE) == written
    assert written.context == context_of("a", "b")
    assert uuid.UUID(written.version).version == 4


@pytest.mark.parametrize(
    "content",
    [
        None,
        "lone \ud800 and paired 😀",
        {"\udfff": ["\ud83d"]},
        2**70,
        -(2**63),
        1e21,
        1e-7,
        -0.0,
        {"__type__": "datetime", "__value__": "x"},
        "你好\u2028\x7f\x00",
    ],
    ids=repr,
)
def test_content_comes_back_as_it_was(states: Backend, content: object) -> None:
    """Whatever JSON an item holds is read back with its types, digits and code units."""
    store = states.store()
    store.compare_and_set(SCOPE, None, context_of("a", content=content))
    stored = store.get(SCOPE)
    assert stored is not None
    assert repr(stored.context.items[0].content) == repr(context_of("a", content=content).items[0].content)


def test_content_at_the_depth_limit_comes_back(states: Backend) -> None:
    """Content nested 200 levels deep is written and read."""
    deep: object = "x"
    for _ in range(200):
        deep = [deep]
    store = states.store()
    written = store.compare_and_set(SCOPE, None, context_of("a", content=deep))
    assert store.get(SCOPE) == written


def test_the_right_version_replaces(states: Backend) -> None:
    """A write that names the stored version replaces the context under a new version."""
    store = states.store()
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    second = store.compare_and_set(SCOPE, first.version, context_of("b"))
    assert second.version != first.version
    assert store.get(SCOPE) == second


def test_another_version_conflicts(states: Backend) -> None:
    """A write that names an older version is a STATE_CONFLICT naming the stored one, and changes nothing."""
    store = states.store()
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    second = store.compare_and_set(SCOPE, first.version, context_of("b"))
    error = refused(lambda: store.compare_and_set(SCOPE, first.version, context_of("c")), "STATE_CONFLICT")
    assert error.details == {"current_version": second.version}
    assert store.get(SCOPE) == second


def test_creating_what_exists_conflicts(states: Backend) -> None:
    """A write that expects nothing fails with STATE_CONFLICT when something is stored."""
    store = states.store()
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    refused(lambda: store.compare_and_set(SCOPE, None, context_of("b")), "STATE_CONFLICT")
    assert store.get(SCOPE) == first


def test_replacing_what_is_absent_conflicts(states: Backend) -> None:
    """A write that expects a version fails with STATE_CONFLICT when nothing is stored, and stores nothing."""
    store = states.store()
    version = str(uuid.uuid4())
    error = refused(lambda: store.compare_and_set(SCOPE, version, context_of("b")), "STATE_CONFLICT")
    assert error.details == {"current_version": None}
    assert store.get(SCOPE) is None


def test_scopes_do_not_fall_back(states: Backend) -> None:
    """A scope with a turn and the one without are different scopes."""
    store = states.store()
    store.compare_and_set(SCOPE, None, context_of("a"))
    assert store.get(OTHER_SCOPE) is None
    store.compare_and_set(OTHER_SCOPE, None, context_of("b"))
    stored = store.get(SCOPE)
    assert stored is not None
    assert ids_of(stored.context) == ["a"]


def test_a_state_expires_and_its_version_never_returns(states: Backend) -> None:
    """After its TTL a state is gone, its version matches no more, and a new one has a new version."""
    store = states.store(ttl_ms=SHORT_TTL_MS)
    first = store.compare_and_set(SCOPE, None, context_of("a"))
    eventually(lambda: store.get(SCOPE) is None)
    refused(lambda: store.compare_and_set(SCOPE, first.version, context_of("a")), "STATE_CONFLICT")
    assert store.compare_and_set(SCOPE, None, context_of("a")).version != first.version


def test_reading_does_not_keep_a_state_alive(states: Backend) -> None:
    """A state that is read all the time expires none the less."""
    store = states.store(ttl_ms=SHORT_TTL_MS)
    store.compare_and_set(SCOPE, None, context_of("a"))
    eventually(lambda: store.get(SCOPE) is None, 5)


@pytest.mark.parametrize("version", ["", 7, b"x"], ids=repr)
def test_an_expected_version_is_a_nonempty_string(states: Backend, version: object) -> None:
    """Any other expected version is INVALID_INPUT."""
    refused(lambda: states.store().compare_and_set(SCOPE, version, context_of("a")), "INVALID_INPUT")


@pytest.mark.parametrize(
    "scope", [{}, {"sessionId": ""}, {"sessionId": None}, {"other": "x"}, None, "s"], ids=repr
)
def test_a_bad_scope_is_refused(states: Backend, scope: object) -> None:
    """A scope without ids, or with a bad one, is INVALID_INPUT for reading and writing."""
    store = states.store()
    refused(lambda: store.get(scope), "INVALID_INPUT")
    refused(lambda: store.compare_and_set(scope, None, context_of("a")), "INVALID_INPUT")


@pytest.mark.parametrize("context", [None, {}, {"items": [{"id": ""}]}], ids=repr)
def test_a_bad_context_is_refused(states: Backend, context: object) -> None:
    """What is no context is INVALID_INPUT, and nothing is stored."""
    store = states.store()
    refused(lambda: store.compare_and_set(SCOPE, None, context), "INVALID_INPUT")
    assert store.get(SCOPE) is None


@pytest.mark.parametrize("ttl_ms", [0, -1, 2**31, 1.5, None, "1", True], ids=repr)
def test_a_bad_ttl_is_refused(states: Backend, ttl_ms: object) -> None:
    """A time to live outside 1 … 2^31-1 whole milliseconds is INVALID_INPUT at construction."""
    refused(lambda: states.store(ttl_ms=ttl_ms), "INVALID_INPUT")


def test_every_store_fulfils_both_ports(states: Backend) -> None:
    """Each store is a ContextStateStore for the type checker, and an OperationLog at run time too."""
    store: ContextStateStore = states.store()
    assert isinstance(store, OperationLog)


def test_many_writers_lose_nothing(states: Backend) -> None:
    """Of 50 writers with 20 appends each, every success is in the context and every failure is a conflict."""
    store = states.store()
    store.compare_and_set(SCOPE, None, context_of("initial"))
    with ThreadPoolExecutor(50) as pool:
        counts = list(pool.map(lambda writer: append_many(store, writer), range(50)))
    stored = store.get(SCOPE)
    assert stored is not None
    successes = sum(done for done, _ in counts)
    conflicts = sum(failed for _, failed in counts)
    assert 1 + successes == len(stored.context.items)
    assert successes + conflicts == 50 * 20
    assert successes > 0


def append_many(store: Store, writer: int) -> tuple[int, int]:
    """Twenty attempts to append, none repeated: how many succeeded and how many met a conflict."""
    succeeded = 0
    for number in range(20):
        read = store.get(SCOPE)
        assert isinstance(read, StoredContext)
        try:
            store.compare_and_set(SCOPE, read.version, with_item(read.context, f"{writer}-{number}"))
            succeeded += 1
        except ContextError as error:
            if error.code != "STATE_CONFLICT":
                raise
    return succeeded, 20 - succeeded


def test_wire_scopes_and_models_are_the_same_scope(states: Backend) -> None:
    """A scope may be given as a model or as its wire form."""
    store = states.store()
    store.compare_and_set({"sessionId": "x"}, None, context_of("a"))
    assert store.get(Scope(session_id="x")) is not None
