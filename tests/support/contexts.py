"""Short ways to make contexts and to see how a call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ditto_tasks.context import Context, ContextSelection
from ditto_tasks.errors import ContextError


def refused(call: Callable[..., object], *args: Any, **named: Any) -> str:
    """The code with which the call is refused; a test that expects a refusal fails without one."""
    with pytest.raises(ContextError) as caught:
        call(*args, **named)
    return caught.value.code


def ids(result: Context | ContextSelection) -> list[str]:
    return [item.id for item in (result if isinstance(result, Context) else result.context).items]


def item(item_id: str, content: object = "c", **metadata: object) -> dict[str, Any]:
    return {"id": item_id, "content": content, **({"metadata": metadata} if metadata else {})}


def context(*items: dict[str, Any]) -> dict[str, Any]:
    return {"items": list(items)}


def nested(levels: int) -> list[Any]:
    """A list that is `levels` deep."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value
