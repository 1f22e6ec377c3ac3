"""STARTED is stored for tasks that last, once, and never over a result."""

import threading
import time
from contextlib import ExitStack

import pytest
from support.polling import eventually

from ditto_tasks.worker.late_starts import AFTER_S, LateStarts


def test_a_short_task_is_not_stored_as_started() -> None:
    """What ends at once is not stored, not even later."""
    starts, stored, lasting = LateStarts(), list[str](), list[str]()
    with starts.watching(lambda: stored.append("short")):
        pass
    with starts.watching(lambda: lasting.append("long")):
        eventually(lambda: lasting == ["long"], 10)
    assert stored == []


def test_a_task_that_lasts_is_stored_once() -> None:
    """However long it runs, and also after a task before it was watched and the watching had ended."""
    starts, stored = LateStarts(), list[int]()
    for number in range(2):
        with starts.watching(lambda number=number: stored.append(number)):  # type: ignore[misc]  # mypy can't infer it
            eventually(lambda number=number: stored == [*range(number + 1)], 10)
            threading.Event().wait(3 * AFTER_S)
        eventually(lambda: "ditto-late-starts" not in {thread.name for thread in threading.enumerate()}, 10)
    assert stored == [0, 1]


def test_a_task_ends_after_its_start_is_stored() -> None:
    """The result, which comes after the block, can't be overtaken by a slow STARTED."""
    starts, order, go_on = LateStarts(), list[str](), threading.Event()
    begun = threading.Event()

    def store() -> None:
        begun.set()
        go_on.wait(10)
        order.append("started")

    def work() -> None:
        with starts.watching(store):
            begun.wait(10)
        order.append("result")

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(10)
    thread.join(2 * AFTER_S)
    assert order == []
    go_on.set()
    thread.join(10)
    assert order == ["started", "result"]


def test_a_failure_to_store_does_not_reach_the_task() -> None:
    """A result server that is away costs the mark, and the next task has its own."""
    starts, stored, tried = LateStarts(), list[str](), list[str]()

    def fail() -> None:
        tried.append("x")
        raise ConnectionError("away")

    with starts.watching(fail):
        eventually(lambda: bool(tried), 10)
    with starts.watching(lambda: stored.append("next")):
        eventually(lambda: stored == ["next"], 10)


def test_nothing_is_stored_before_its_time() -> None:
    """However many tasks come and go while others are watched, what is stored has lasted for the delay."""
    starts, ages_s, ended_s = LateStarts(), list[float](), time.monotonic() + 6 * AFTER_S
    with starts.watching(lambda: None):
        while time.monotonic() < ended_s:
            since_s = time.monotonic()
            with starts.watching(lambda since_s=since_s: ages_s.append(time.monotonic() - since_s)):  # type: ignore[misc]  # mypy can't infer it
                threading.Event().wait(AFTER_S / 10)
    assert all(age_s >= AFTER_S for age_s in ages_s)


def test_a_task_that_ended_meanwhile_is_not_stored() -> None:
    """While the server keeps the mark of one task waiting, another one ends: its result must stand."""
    starts, order = LateStarts(), list[str]()
    stored, go_on = threading.Event(), threading.Event()

    def store(name: str) -> None:
        order.append(name)
        stored.set()
        go_on.wait(10)

    tasks = {name: ExitStack() for name in ("one", "two")}
    with starts.watching(lambda: threading.Event().wait(3 * AFTER_S)):  # until both of them have lasted
        for name, task in tasks.items():
            task.enter_context(starts.watching(lambda name=name: store(name)))  # type: ignore[misc]  # as above
        assert stored.wait(10)
        (other,) = tasks.keys() - order
        tasks[other].close()
        go_on.set()
        tasks[order[0]].close()
    eventually(lambda: "ditto-late-starts" not in {thread.name for thread in threading.enumerate()}, 10)
    assert len(order) == 1


def test_a_failure_to_store_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """A driver's error may hold an address."""

    def fail() -> None:
        raise ConnectionError("redis://canary@host")

    with LateStarts().watching(fail):
        eventually(lambda: "STARTED was not stored" in caplog.text, 10)
    assert "ConnectionError" in caplog.text
    assert "canary" not in caplog.text
