"""STARTED is stored for tasks that last, once, and never over a result."""

import threading

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
