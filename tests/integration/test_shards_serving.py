"""Shards served by real workers: order, parallel work, takeovers, redeliveries."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.fleet import Fleet
from support.polling import eventually

from ditto_tasks.canonical import scope_key
from ditto_tasks.context.models import parse_context
from ditto_tasks.errors import ContextError
from ditto_tasks.models import Scope
from ditto_tasks.state.redis import RedisContextStore


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with Fleet() as running:
        running.start()
        yield running


def test_calls_of_a_scope_run_in_the_order_in_which_they_were_sent(fleet: Fleet) -> None:
    """A hundred calls that are sent without waiting are applied one after another, in that order."""
    ids = [fleet.append("order", f"order-{number}") for number in range(100)]
    receipts = [fleet.receipt(task_id) for task_id in ids]
    assert fleet.items("order") == ids
    assert [receipt["items"] for receipt in receipts] == list(range(1, 101))


def test_shards_run_in_parallel_in_one_worker(fleet: Fleet) -> None:
    """A mutation that waits holds back its own shard and no other."""
    gate = fleet.folder / "parallel"
    fleet.suffer("slow", "slow-1", f"until:{gate}")
    fleet.append("slow", "slow-2")
    for session in fleet.sessions_beside("slow", 8):
        fleet.receipt(fleet.append(session, f"beside-{session}"))
    assert fleet.stored("slow-2") is None
    gate.touch()
    fleet.receipt("slow-2")


def test_a_mutation_that_lasts_is_started_until_its_result_stands(fleet: Fleet) -> None:
    """The result backend says STARTED while it runs, and its result afterwards."""
    gate = fleet.folder / "lasting"
    fleet.suffer("lasting", "lasting-1", f"until:{gate}")
    eventually(lambda: fleet.app.AsyncResult("lasting-1").state == "STARTED", 20)
    gate.touch()
    fleet.receipt("lasting-1")
    assert fleet.app.AsyncResult("lasting-1").state == "SUCCESS"


def test_a_read_of_session_consistency_waits_for_the_writes_before_it(fleet: Fleet) -> None:
    """A read through the shard sees every call that its sender sent before."""
    for number in range(20):
        fleet.append("reads", f"read-{number}")
    fleet.send("reads", "read", "CONTEXT.LOAD", ditto={"consistency": "session"})
    assert len(fleet.receipt("read")["items"]) == 20


@pytest.mark.parametrize("between", [33, 300, 500])
def test_a_redelivery_after_later_calls_has_no_second_effect(fleet: Fleet, between: int) -> None:
    """A call that comes again after many others answers as it did, and changes nothing."""
    session = f"again-{between}"
    item = {"id": "first", "content": 1}
    fleet.send(session, f"{session}-first", add=[item])
    first = fleet.receipt(f"{session}-first")
    ids = [fleet.append(session, f"{session}-{number}") for number in range(between)]
    options = {"onMissing": "create", "operationId": f"{session}-first"}
    fleet.send(session, f"{session}-retry", add=[item], ditto=options)
    again = fleet.receipt(f"{session}-retry")
    assert (again["version"], again["replayed"]) == (first["version"], True)
    assert fleet.items(session) == ["first", *ids]


def test_the_same_message_twice_gives_the_same_receipt(fleet: Fleet) -> None:
    """A doubled message is answered from the operation log, also after a foreign write in between."""
    item = {"id": "x", "content": 1}
    fleet.send("double", "double-1", add=[item])
    first = fleet.receipt("double-1")
    foreign = {"version": "foreign", "context": {"items": []}}
    fleet.state.set(f"ditto:context:{scope_key({'sessionId': 'double'})}", json.dumps(foreign), px=60_000)
    fleet.send("double", "double-2", add=[item], ditto={"onMissing": "create", "operationId": "double-1"})
    again = fleet.receipt("double-2")
    assert (again["version"], again["replayed"]) == (first["version"], True)
    assert fleet.items("double") == []


def test_a_refusal_is_repeated_although_it_would_succeed_now(fleet: Fleet) -> None:
    """A call that was refused stays refused when it comes again after the state changed in its favour."""
    fleet.append("refused", "refused-1")
    fleet.receipt("refused-1")
    wire = {"add": [{"id": "late", "content": 1}], "expectedVersion": "stale"}
    fleet.send("refused", "refused-2", **wire)
    assert fleet.code("refused-2") == "STATE_CONFLICT"
    fleet.send("refused", "refused-3", **wire, ditto={"onMissing": "create", "operationId": "refused-2"})
    assert fleet.code("refused-3") == "STATE_CONFLICT"
    assert fleet.items("refused") == ["refused-1"]


def test_fifty_writers_through_the_queue_never_conflict(fleet: Fleet) -> None:
    """50 writers append 20 items each to one scope: 1,000 items, 1,000 versions and no conflict."""
    with ThreadPoolExecutor(8) as threads:
        ids = list(
            threads.map(
                lambda pair: fleet.append("writers", f"writer-{pair[0]}-{pair[1]}"),
                [(writer, number) for number in range(20) for writer in range(50)],
            )
        )
    receipts = [fleet.receipt(task_id, 60) for task_id in ids]
    assert len({receipt["version"] for receipt in receipts}) == 1_000
    assert sorted(receipt["items"] for receipt in receipts) == list(range(1, 1_001))
    assert sorted(fleet.items("writers")) == sorted(ids)


def test_fifty_writers_without_the_queue_add_up(fleet: Fleet) -> None:
    """Direct compare-and-set: initial + successes = items, and successes + conflicts = attempts."""
    store = RedisContextStore(fleet.state)
    scope = Scope.parse({"sessionId": "direct"})

    def write(writer: int) -> tuple[int, int]:
        won = lost = 0
        for number in range(20):
            stored = store.get(scope)
            items = [*stored.context.items] if stored else []
            item = {"id": f"{writer}-{number}", "content": 1}
            try:
                context = parse_context({"items": [*items, item]})
                store.compare_and_set(scope, stored.version if stored else None, context)
                won += 1
            except ContextError as error:
                assert error.code == "STATE_CONFLICT"  # noqa: PT017 -- counted, not expected each time
                lost += 1
        return won, lost

    with ThreadPoolExecutor(10) as threads:
        counts = list(threads.map(write, range(50)))
    won, lost = (sum(column) for column in zip(*counts, strict=True))
    assert won + lost == 1_000
    assert len(fleet.items("direct")) == won
    assert won > 0
