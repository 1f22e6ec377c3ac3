"""The client that a task lends to services, and the token that asks."""

from typing import Any

import pytest

from ditto_tasks import interruptions
from ditto_tasks.errors import Cancelled, DittoError
from ditto_tasks.interruptions import AskingToken
from ditto_tasks.task import TaskClient


class Sender:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, Any, str | None]] = []

    def __call__(self, node: str, wire: Any, task_id: str | None) -> str:
        self.published.append((node, wire, task_id))
        return task_id or "new"


@pytest.mark.parametrize(
    ("own", "given", "sent"),
    [
        (None, {}, {}),
        (None, {"deadlineMs": 7}, {"deadlineMs": 7}),
        (5, {}, {"deadlineMs": 5}),
        (5, {"deadlineMs": 7, "operationId": "o"}, {"deadlineMs": 5, "operationId": "o"}),
        (5, {"deadlineMs": 3}, {"deadlineMs": 3}),
    ],
)
def test_no_call_outlives_the_task(own: int | None, given: dict[str, Any], sent: dict[str, Any]) -> None:
    """A call gets the task's deadline unless its own is earlier; without either it has none."""
    sender = Sender()
    assert TaskClient("root", own, sender).send("A.B", {"x": 1}, options=given) == "new"
    assert sender.published == [("A.B", {"x": 1, **({"ditto": sent} if sent else {})}, None)]


def test_the_task_id_may_be_chosen() -> None:
    """A service that may run twice names its calls itself."""
    sender = Sender()
    assert TaskClient("root", None, sender).send("A.B", {}, task_id="mine") == "mine"


def test_a_token_asks_at_its_check_points_but_not_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """No question before the interval is over, one in each interval, none once it is cancelled."""
    asked: list[DittoError | None] = []
    answers: list[DittoError | None] = [None, Cancelled()]

    def ask() -> DittoError | None:
        asked.append(answers[len(asked)])
        return asked[-1]

    token = AskingToken(ask)
    token.raise_if_cancelled()
    assert asked == []
    monkeypatch.setattr(interruptions, "ASK_EVERY_S", 0.0)
    token = AskingToken(ask)
    token.raise_if_cancelled()
    for _ in range(2):
        with pytest.raises(Cancelled):
            token.raise_if_cancelled()
    assert len(asked) == 2


def test_a_broker_that_can_not_be_asked_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work goes on when the question fails."""

    def ask() -> DittoError | None:
        raise OSError("redis://secret")

    monkeypatch.setattr(interruptions, "ASK_EVERY_S", 0.0)
    AskingToken(ask).raise_if_cancelled()
