"""Hypothesis strategies for JSON and for contexts, odd text and numbers included."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

TEXT = st.text(alphabet=st.characters(), max_size=12)  # every code point, lone surrogates too
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT


def json_values(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    return st.recursive(
        SCALARS,
        lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXT, children, max_size=4),
        max_leaves=max_leaves,
    )


FLAGS = (
    *("protected", "safety", "currentGoal", "pending", "private", "memoryEligible"),
    *("memoryCandidate", "reusable", "stable", "retrievable"),
)


def metadata() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            **{flag: st.booleans() for flag in FLAGS},
            "role": st.sampled_from(["system", "user"]),
            "priority": st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False),
            "relevance": st.floats(-1, 1),
            "callId": st.sampled_from(["", "a", "b"]) | st.just(3),
        },
    )


def items(ids: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"id": ids or st.sampled_from("abcdefghij"), "content": json_values(4)},
        optional={"metadata": metadata(), "source": st.just({"uri": "urn:x"}), "extra": json_values(3)},
    )


def contexts(max_items: int = 8) -> st.SearchStrategy[dict[str, Any]]:
    found = st.lists(items(), max_size=max_items, unique_by=lambda item: str(item["id"]))
    return found.map(lambda chosen: {"items": chosen})
