"""The conversation strategies and receipts on a real worker."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.conversations import session
from support.provider_rules import openai_faults
from support.workers import Deployment

from ditto_tasks.context import ContextSelection, parse_context
from ditto_tasks.context.conversations import read_openai, write_openai
from ditto_tasks.context.replay import confirm
from ditto_tasks.errors import ContextError
from ditto_tasks.models import to_wire

STRATEGY = {"kind": "provider", "name": "conversation"}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment() as running:
        yield running


@pytest.fixture
def scope(deployment: Deployment) -> dict[str, str]:
    """A scope with a stored conversation."""
    scope = {"sessionId": str(uuid.uuid4())}
    sources = [to_wire(item) for item in read_openai(session(3))]
    deployment.call("CONTEXT.LOAD", scope=scope, sources=sources)
    return scope


def test_workers_select_conversations_by_name(deployment: Deployment, scope: dict[str, str]) -> None:
    """A worker without extensions cuts a stored conversation to a list that the provider accepts."""
    answer = deployment.call("CONTEXT.SELECT", scope=scope, purpose="infer", maxTokens=600, strategy=STRATEGY)
    left = ContextSelection.parse(answer).context
    assert openai_faults(write_openai(left).messages) == []
    assert "explanation" not in answer


def test_a_task_explains_its_selection(deployment: Deployment, scope: dict[str, str]) -> None:
    """With the option `explain` the answer has a receipt that confirms it."""
    request: dict[str, Any] = {"purpose": "infer", "maxTokens": 600, "strategy": STRATEGY}
    context = parse_context(deployment.call("CONTEXT.LOAD", scope=scope))
    answer = deployment.call("CONTEXT.SELECT", scope=scope, **request, ditto={"explain": True})
    assert confirm(answer["explanation"], context, request) == ContextSelection.parse(answer)


def test_compress_explains_what_it_wrote(deployment: Deployment, scope: dict[str, str]) -> None:
    """COMPRESS of a stored conversation tells why each item went, and what it wrote confirms it."""
    request = {"maxTokens": 600, "strategy": STRATEGY}
    context = parse_context(deployment.call("CONTEXT.LOAD", scope=scope))
    receipt = deployment.call("CONTEXT.COMPRESS", scope=scope, **request, ditto={"explain": True})
    now = parse_context(deployment.call("CONTEXT.LOAD", scope=scope))
    assert confirm(receipt["explanation"], context, request) == now
    assert receipt["items"] == len(now.items) < len(context.items)


def test_a_budget_that_is_too_small_says_what_would_do(deployment: Deployment, scope: dict[str, str]) -> None:
    """BUDGET_TOO_SMALL crosses the task boundary with the least budget, and changes nothing."""
    before = deployment.call("CONTEXT.LOAD", scope=scope)
    with pytest.raises(ContextError) as caught:
        deployment.call("CONTEXT.COMPRESS", scope=scope, maxTokens=5, strategy=STRATEGY)
    assert caught.value.code == "BUDGET_TOO_SMALL"
    least = (caught.value.details or {})["least_tokens"]
    assert deployment.call("CONTEXT.LOAD", scope=scope) == before
    assert (
        deployment.call("CONTEXT.COMPRESS", scope=scope, maxTokens=least, strategy=STRATEGY)["tokens"] <= 600
    )
