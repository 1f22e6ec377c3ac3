"""CONTEXT.UPDATE on a given context."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import context, ids, item, refused

from ditto_tasks.context import ContextNodes
from ditto_tasks.models import to_wire

NODES = ContextNodes()
BASE = context(item("a", 1), item("b", 2), item("c", 3))


def ingress(item_id: str, node: str = "MEMORY.SEARCH", **more: Any) -> dict[str, Any]:
    return {"id": item_id, "sourceNode": node, "content": "i", **more}


def test_order_of_removal_addition_and_ingress() -> None:
    """Removed and added again goes to the end; replaced keeps its place; ingress comes last."""
    updated = NODES.update(
        context=BASE, remove_ids=["a"], add=[item("a", 9), item("b", 8)], ingress=[ingress("z"), ingress("c")]
    )
    assert [(each.id, each.content) for each in updated.items] == [
        ("b", 8), ("c", "i"), ("a", 9), ("z", "i")
    ]  # fmt: skip


def test_ingress_becomes_an_item() -> None:
    """sourceNode goes into the metadata and wins there; a reference becomes the source."""
    entry = ingress("z", metadata={"sourceNode": "x", "k": [1]}, reference={"uri": "u", "e": 1}, extra=1)
    assert to_wire(NODES.update(context=context(), ingress=[entry])) == context(
        {
            "id": "z",
            "content": "i",
            "metadata": {"sourceNode": "MEMORY.SEARCH", "k": [1]},
            "source": {"uri": "u", "e": 1},
        }
    )


@pytest.mark.parametrize(
    ("node", "valid"),
    [
        ("A.B", True),
        ("a.b.c", True),
        ("A", False),
        ("A.", False),
        (".B", False),
        ("A..B", False),
        ("A. B", False),
        ("A.B\n", False),
        ("A.B\ufeff", False),
        ("A.B\u00a0", False),
        ("A.B\u2028", False),
        ("A.B\u0085", True),
        ("A\x1c.B\x1f", True),
        ("", False),
    ],
)
def test_source_node_is_dotted(node: str, valid: bool) -> None:
    """The whole name has two dotted parts or more without ECMAScript whitespace."""
    if valid:
        assert ids(NODES.update(context=context(), ingress=[ingress("z", node)])) == ["z"]
    else:
        assert refused(NODES.update, context=context(), ingress=[ingress("z", node)]) == "INVALID_INPUT"


@pytest.mark.parametrize("field", ["add", "ingress"])
@pytest.mark.parametrize(
    ("duplicate", "expected"), [("replace", "new"), ("keep-first", 1), ("reject", "DUPLICATE_ITEM")]
)
def test_duplicates_with_what_is_there(field: str, duplicate: str, expected: Any) -> None:
    """The policy rules new against existing, for added and handed-in items."""
    nodes = ContextNodes(policy={"duplicate": duplicate})
    entry = {**ingress("a"), "content": "new"}
    if duplicate == "reject":
        assert refused(nodes.update, {"context": BASE, field: [entry]}) == expected
    else:
        updated = nodes.update({"context": BASE, field: [entry]})
        assert (ids(updated), updated.items[0].content) == (["a", "b", "c"], expected)


def test_missing_removals() -> None:
    """A missing id, and the same id twice, are refused only by the reject policy."""
    strict = ContextNodes(policy={"missingRemoval": "reject"})
    for remove in (["x"], ["a", "a"]):
        assert refused(strict.update, context=BASE, remove_ids=remove) == "MISSING_ITEM"
        NODES.update(context=BASE, remove_ids=remove)


def test_inline_check_comes_first() -> None:
    """An oversized existing item is refused even if it is being removed."""
    nodes = ContextNodes(policy={"maxInlineBytes": 4})
    over = context(item("a", "toolong"))
    assert refused(nodes.update, context=over, remove_ids=["a"]) == "INLINE_LIMIT_EXCEEDED"
    assert refused(nodes.update, context=context(), add=over["items"]) == "INLINE_LIMIT_EXCEEDED"
    large = {**ingress("a"), "content": "toolong"}
    assert refused(nodes.update, context=context(), ingress=[large]) == "INLINE_LIMIT_EXCEEDED"


def test_item_limit_is_checked_at_the_end() -> None:
    """Room made by a removal can be used by the same call."""
    nodes = ContextNodes(policy={"maxItems": 3})
    assert ids(nodes.update(context=BASE, remove_ids=["a"], add=[item("d")])) == ["b", "c", "d"]
    assert refused(nodes.update, context=BASE, add=[item("d")]) == "ITEM_LIMIT_EXCEEDED"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"context": None},
        {"context": []},
        {"context": {"items": [item("a"), item("a")]}},
        {"context": BASE, "add": None},
        {"context": BASE, "add": [None]},
        {"context": BASE, "removeIds": [""]},
        {"context": BASE, "removeIds": [1]},
        {"context": BASE, "ingress": {}},
        {"context": BASE, "removeIds": ["x"], "ingress": [{"id": "a"}]},
    ],
)
def test_bad_fields(fields: dict[str, Any]) -> None:
    """All of the input is validated before anything is done."""
    strict = ContextNodes(policy={"missingRemoval": "reject"})
    assert refused(strict.update, fields) == "INVALID_INPUT"


def test_duplicate_ids_in_a_context_are_refused_whatever_the_policy() -> None:
    """policy.duplicate is about changes, not about a context that is broken already."""
    nodes = ContextNodes(policy={"duplicate": "keep-first"})
    assert refused(nodes.update, context=context(item("a"), item("a"))) == "INVALID_INPUT"
