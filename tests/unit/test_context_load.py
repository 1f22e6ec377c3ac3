"""CONTEXT.LOAD on sources."""

from __future__ import annotations

from typing import Any

import pytest
from support.contexts import ids, item, nested, refused

from ditto_tasks.canonical import stable_id
from ditto_tasks.context import ContextExecution, ContextItem, ContextMessage, ContextNodes, ContextServices
from ditto_tasks.context import ContextReference as Reference
from ditto_tasks.models import to_wire

NODES = ContextNodes()


@pytest.mark.parametrize(
    ("source", "expected_id"),
    [
        ({"id": "a", "role": "user", "content": 1}, "a"),
        ({"role": "user", "uri": "u", "content": 1}, "message:"),
        ({"uri": "u"}, "reference:"),
    ],
)
def test_keys_decide_what_a_source_is(source: dict[str, Any], expected_id: str) -> None:
    """`id` makes an item, else `role` a message, else it is a reference."""
    assert ids(NODES.load(sources=[source]))[0].startswith(expected_id)


@pytest.mark.parametrize("source", [{"id": None}, {}, {"role": "user"}, None, [], "text", {"uri": 1}])
def test_bad_sources(source: Any) -> None:
    """A source that is not what its keys say is INVALID_INPUT."""
    assert refused(NODES.load, {"sources": [source]}) == "INVALID_INPUT"


def test_equal_messages_are_one_item() -> None:
    """Two equal messages collapse; a name, an extra field or another number makes another item."""
    hello: dict[str, Any] = {"role": "user", "content": {"n": 1}}
    variants = [hello, {**hello, "content": {"n": 1.0}}, {**hello, "name": "n"}, {**hello, "extra": None}]
    assert len(ids(NODES.load(sources=[*variants, *variants]))) == 3
    with_name = NODES.load(sources=[variants[2]]).items[0]
    assert with_name.metadata == {"sourceType": "message", "role": "user", "name": "n"}
    assert with_name.model_extra is None


def test_ids_hash_the_whole_source() -> None:
    """Message and reference ids are hashes of everything that was given, models and dicts alike."""
    message = {"role": "tool", "content": [-0.0, 1e21, 1e-7, "\ud800"], "x": {"\U00010000": 1, "\ue000": 2}}
    reference = {"uri": "u", "mediaType": "t", "x": [1]}
    loaded = NODES.load(sources=[message, reference])
    assert ids(loaded) == [stable_id("message", message), stable_id("reference", reference)]
    models = [ContextMessage(**message), Reference(uri="u", media_type="t", x=[1])]
    assert NODES.load(sources=models) == loaded


def test_references_point() -> None:
    """A reference becomes an item with the whole reference as content and source, over any inline limit."""
    reference = {"uri": "u" * 100, "z": 1}
    loaded = ContextNodes(policy={"maxInlineBytes": 1}).load(sources=[reference])
    assert to_wire(loaded.items[0])["content"] == [{"type": "reference", "reference": reference}]
    assert to_wire(loaded.items[0].source) == reference


def test_a_reference_too_deep_to_store() -> None:
    """What would be content deeper than 200 levels is refused now, not when the state is read."""
    assert len(NODES.load(sources=[{"uri": "u", "x": nested(197)}]).items) == 1
    assert refused(NODES.load, sources=[{"uri": "u", "x": nested(199)}]) == "INVALID_INPUT"


def test_content_may_be_200_levels_deep() -> None:
    """The deepest content is loaded, hashed and counted."""
    for deep in (nested(200), [[1.0, nested(198)]]):
        assert len(NODES.load(sources=[{"role": "user", "content": deep}, item("a", deep)]).items) == 2
    wide: Any = 1.0
    for _ in range(200):
        wide = {"k": wide}
    assert len(NODES.load(sources=[{"role": "user", "content": wide}]).items) == 1


@pytest.mark.parametrize(
    ("duplicate", "expected"),
    [("replace", [("a", 3), ("b", 2)]), ("keep-first", [("a", 1), ("b", 2)]), ("reject", "DUPLICATE_ITEM")],
)
def test_duplicates(duplicate: str, expected: Any) -> None:
    """The policy rules an id that comes twice; a replaced item keeps its place."""
    nodes = ContextNodes(policy={"duplicate": duplicate})
    sources = [item("a", 1), item("b", 2), item("a", 3)]
    if duplicate == "reject":
        assert refused(nodes.load, sources=sources) == expected
    else:
        assert [(each.id, each.content) for each in nodes.load(sources=sources).items] == expected


def test_item_limit_counts_distinct_items() -> None:
    """More than maxItems is refused; duplicates do not count."""
    nodes = ContextNodes(policy={"maxItems": 1})
    assert len(nodes.load(sources=[item("a"), item("a")]).items) == 1
    assert refused(nodes.load, sources=[item("a"), item("b")]) == "ITEM_LIMIT_EXCEEDED"


def test_inline_limit() -> None:
    """Content over the limit is refused unless the item points elsewhere."""
    nodes = ContextNodes(policy={"maxInlineBytes": 3})
    assert len(nodes.load(sources=[item("fits", "x")]).items) == 1
    assert refused(nodes.load, sources=[item("a", "toolong")]) == "INLINE_LIMIT_EXCEEDED"
    assert refused(nodes.load, sources=[item("a", {"type": "reference"})]) == "INLINE_LIMIT_EXCEEDED"
    assert refused(nodes.load, sources=[{"role": "user", "content": "toolong"}]) == "INLINE_LIMIT_EXCEEDED"
    allowed = [item("a", ["long", {"type": "reference"}]), {**item("b", "long"), "source": {"uri": "u"}}]
    assert len(nodes.load(sources=allowed).items) == 2


def test_items_keep_extra_fields_and_models_are_taken_as_they_are() -> None:
    """Extra fields of an item stay, frozen; an item that is a model is not copied."""
    model = ContextItem(id="a", content=None, extra={"b": [1]})
    loaded = NODES.load(sources=[model])
    assert loaded.items[0] is model
    assert to_wire(loaded) == {"items": [{"id": "a", "content": None, "extra": {"b": [1]}}]}
    with pytest.raises(TypeError):
        loaded.items[0].extra["b"].append(2)


class Resolver:
    """Answers what it was made with, and remembers what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def resolve(self, reference: Reference, execution: ContextExecution) -> Any:
        assert execution.policy.max_items == 256
        self.asked.append(reference.uri)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _resolving(answer: Any, **policy: Any) -> tuple[ContextNodes, Resolver]:
    resolver = Resolver(answer)
    return ContextNodes(policy=policy, services=ContextServices(reference_resolver=resolver)), resolver


def test_bare_references_are_resolved() -> None:
    """Each bare reference is asked for once an occurrence; an item with a source is not."""
    nodes, resolver = _resolving({"text": "found"})
    sources = [{"uri": "u"}, {"uri": "u"}, {**item("a"), "source": {"uri": "v"}}]
    loaded = nodes.load(sources=sources, resolve_references=True)
    assert resolver.asked == ["u", "u"]
    assert [each.content for each in loaded.items] == [{"text": "found"}, "c"]
    assert loaded.items[0].metadata == {"sourceType": "reference"}
    assert to_wire(loaded.items[0].source) == {"uri": "u"}
    assert nodes.load(sources=sources, resolve_references=False).items[0].content != {"text": "found"}


def test_resolver_failures() -> None:
    """No resolver, a bad answer and a large one have their codes; the resolver's own error passes raw."""
    request = {"sources": [{"uri": "u"}], "resolveReferences": True}
    assert refused(NODES.load, {**request, "sources": []}) == "RESOLVER_UNAVAILABLE"
    assert refused(_resolving(float("nan"))[0].load, request) == "INVALID_PROVIDER_OUTPUT"
    large = [{"type": "reference", "more": "x" * 10}]
    assert refused(_resolving(large, maxInlineBytes=9)[0].load, request) == "INLINE_LIMIT_EXCEEDED"
    with pytest.raises(ZeroDivisionError):
        _resolving(ZeroDivisionError())[0].load(request)


@pytest.mark.parametrize("value", ["yes", None, 1, [True]])
def test_resolve_references_is_a_boolean(value: Any) -> None:
    """Anything but true and false is refused, before sources are looked at."""
    assert refused(NODES.load, {"sources": 5, "resolveReferences": value}) == "INVALID_INPUT"


def test_invalid_input_wins() -> None:
    """A bad source is found before a missing resolver and before limits."""
    request = {"sources": [item("a"), item("a"), {}], "resolveReferences": True}
    assert refused(ContextNodes(policy={"duplicate": "reject"}).load, request) == "INVALID_INPUT"
