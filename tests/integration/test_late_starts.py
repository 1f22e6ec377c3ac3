"""STARTED in the result backend, with a real worker: of tasks that last, and of no other."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from support.fleet import KEYS, RESULT_KEY, Fleet
from support.polling import eventually
from support.resolver import suffering

from ditto_tasks.result_backend import erased_result
from ditto_tasks.tenants import owner_key

WAIT_S = 20.0
SHORT = 20  # a busy machine may stop some of them, but not each, for as long as a task that lasts


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as running:
        running.start()
        yield running


def lasting(fleet: Fleet, task_id: str, **options: Any) -> None:
    """A task of an ordinary queue, which has begun and runs until it is let go."""
    wire = suffering(f"until:{fleet.folder / task_id}")
    fleet.app.send_task("CONTEXT.LOAD", kwargs=wire, task_id=task_id, **options)
    begun(fleet, task_id)


def begun(fleet: Fleet, task_id: str) -> None:
    eventually((fleet.folder / f"{task_id}.started").exists, WAIT_S)


def let_go(fleet: Fleet, task_id: str) -> None:
    (fleet.folder / task_id).touch()


def is_started(fleet: Fleet, task_id: str) -> bool:
    return bool(fleet.app.AsyncResult(task_id).state == "STARTED")


def told(subscription: Any, ends: int = 1) -> list[dict[str, Any]]:
    """What listeners of results were told until so many tasks had ended."""
    records: list[dict[str, Any]] = []
    while sum(record["status"] != "STARTED" for record in records) < ends:
        message = eventually(lambda: subscription.get_message(timeout=1.0), WAIT_S)
        if message["type"] == "message":
            records.append(json.loads(message["data"]))
    return records


def test_a_task_that_lasts_is_started_once_and_then_ends(fleet: Fleet) -> None:
    """Its listeners are told twice: which process of which worker has it, and its result."""
    with closing(fleet.results.pubsub()) as subscription:
        subscription.subscribe(f"{RESULT_KEY}lasts")
        lasting(fleet, "lasts")
        eventually(lambda: is_started(fleet, "lasts"), WAIT_S)
        let_go(fleet, "lasts")
        started, ended = told(subscription)
    assert (started["status"], ended["status"]) == ("STARTED", "SUCCESS")
    assert started["result"]["hostname"].startswith("w1@")
    assert started["result"]["pid"] > 0


def test_short_tasks_are_not_started(fleet: Fleet) -> None:
    """Celery would store it before each of them, at the price of a round trip a task."""
    ids = [f"short-{number}" for number in range(SHORT)]
    with closing(fleet.results.pubsub()) as subscription:
        for task_id in ids:
            subscription.subscribe(f"{RESULT_KEY}{task_id}")
            fleet.app.send_task("CONTEXT.LOAD", kwargs={"sources": []}, task_id=task_id)
        records = told(subscription, SHORT)
    assert len(records) < 2 * SHORT


def test_a_task_whose_result_nobody_wants_is_not_started(fleet: Fleet) -> None:
    """Nodes of graphs are such: while another one that began later is started, nothing is stored for it."""
    lasting(fleet, "unwanted", ignore_result=True)
    for later in ("later-1", "later-2"):  # the second is looked at after the first, and so after `unwanted`
        lasting(fleet, later)
        eventually(lambda later=later: is_started(fleet, later), WAIT_S)  # type: ignore[misc]  # mypy can't infer it
        let_go(fleet, later)
    assert not fleet.results.exists(f"{RESULT_KEY}unwanted")
    let_go(fleet, "unwanted")


def test_a_call_in_this_process_is_not_started(fleet: Fleet) -> None:
    """`apply()` runs a task where it is called, and its result is kept nowhere."""
    task = fleet.app.tasks["CONTEXT.LOAD"]
    wire = suffering(f"until:{fleet.folder / 'here'}")
    thread = threading.Thread(target=lambda: task.apply(kwargs=wire, task_id="here"))
    thread.start()
    begun(fleet, "here")
    for _ in range(2):
        marked = threading.Event()
        with fleet.app.late_starts.watching(marked.set):
            assert marked.wait(WAIT_S)
    let_go(fleet, "here")
    thread.join(WAIT_S)
    assert not fleet.results.exists(f"{RESULT_KEY}here")


def test_the_start_of_an_erased_sessions_task_is_not_stored(fleet: Fleet) -> None:
    """Whoever waits hears of the erasure while the task still runs, as at its end."""
    fleet.results.set(KEYS.erased(owner_key("session", "erased")), "1", px=60_000)
    fleet.suffer("erased", "gone", f"until:{fleet.folder / 'gone'}")
    begun(fleet, "gone")
    assert eventually(lambda: fleet.results.get(f"{RESULT_KEY}gone"), WAIT_S) == erased_result("gone")
    let_go(fleet, "gone")
