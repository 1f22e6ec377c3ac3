"""Sessions of the shape that real agents with tools leave: null contents, empty results, ids that repeat."""

from __future__ import annotations

import json
import random
from itertools import groupby
from typing import Any

Message = dict[str, Any]

WORDS = [
    *("flight", "refund", "gate", "order", "window", "policy", "seat"),
    *("voucher", "status", "total", "schedule", "transfer", "paid"),
]


def session(seed: int, *, messages: int = 30, system_words: int = 40) -> list[Message]:
    """An OpenAI list; the same seed gives the same one."""
    draw = random.Random(seed)  # noqa: S311 -- text of a test is no secret
    listed: list[Message] = [{"role": "system", "content": _words(draw, system_words)}]
    ids = [f"call_{seed}_{number}" for number in range(4)]  # few, so that they repeat within a session
    while len(listed) < messages:
        listed.append({"role": "user", "content": _words(draw, draw.randint(1, 40))})
        for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
            listed += exchange(draw, draw.choice(ids))
        listed.append({"role": "assistant", "content": _words(draw, draw.randint(3, 60))})
    if seed % 4 == 0:
        listed.pop()  # the agent is about to answer
    return listed


def exchange(draw: random.Random, call_id: str) -> list[Message]:
    """A call and its result."""
    name = f"find_{draw.choice(WORDS)}"
    function = {"name": name, "arguments": json.dumps({"id": draw.randint(1, 999), "é": "日本"})}
    call = {"id": call_id, "type": "function", "function": function}
    content = None if draw.random() < 0.9 else "Let me look."
    result = "" if draw.random() < 0.1 else json.dumps({"rows": _words(draw, draw.choice((5, 30, 300)))})
    return [
        {"role": "assistant", "content": content, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "name": name, "content": result},
    ]


def in_parallel(messages: list[Message]) -> list[Message]:
    """Runs of calls one after another as parallel calls of one message; their ids may clash there."""
    merged: list[Message] = []
    for calling, run in groupby(messages, key=lambda each: each["role"] == "tool" or "tool_calls" in each):
        listed = list(run)
        if not calling:
            merged += listed
            continue
        calls = [call for each in listed for call in each.get("tool_calls", ())]
        merged.append({"role": "assistant", "content": None, "tool_calls": calls})
        merged += [each for each in listed if each["role"] == "tool"]
    return merged


def _words(draw: random.Random, count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))
