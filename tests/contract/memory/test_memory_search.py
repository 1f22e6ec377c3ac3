"""SEARCH finds words of every script and survives any query, over every store."""

import pytest
from support.memories import Backend, code, contents, output, remember

from ditto_tasks.memory import MemoryNodes
from ditto_tasks.memory.stores.sql import SqlMemoryStore
from ditto_tasks.memory.stores.sql.dialects import DIALECTS

STORES = ("sqlite", "postgresql", "mariadb")
TEXTS = {
    "en": "The quick brown fox jumps over the lazy dog",
    "zh": "北京大学的学生在图书馆读书",
    "zh-hant": "臺灣的夜市有很多小吃",
    "ja": "東京タワーは夜になると赤く光ります",
    "ja-half": "ｶﾀｶﾅは半角でも読めます",
    "ko": "서울에서 부산까지 기차로 갑니다",
    "th": "ภาษาไทยเขียนโดยไม่เว้นวรรค",
    "ar": "الكِتَابُ الجديد على الطاولة",
    "hi": "हिन्दी में किताब पढ़ना अच्छा है",
    "vi": "Tôi thích cà phê sữa đá",
    "fr": "L'été à la crème brûlée",
    "pl": "Łódź leży w środku Polski",
    "el": "Η Αθήνα είναι ΜΕΓΑΛΗ πόλη",
    "ru": "Ёжик живёт в лесу",
    "he": "שָׁלוֹם עולם",
    "km": "ភាសាខ្មែរមិនដកឃ្លា",
    "mixed": "Deploy 東京リージョン with Kubernetes-1.29",
    "id": "order 550e8400-e29b-41d4-a716-446655440000 shipped",
}
QUESTIONS = [
    ("fox", "en"),
    ("LAZY dogs?", "en"),
    ("jump", "en"),
    ("大学", "zh"),
    ("图书馆", "zh"),
    ("夜市", "zh-hant"),
    ("東京タワー", "ja"),
    ("赤", "ja"),
    ("カタカナ", "ja-half"),
    ("서울", "ko"),
    ("기차", "ko"),
    ("ภาษาไทย", "th"),
    ("เว้นวรรค", "th"),
    ("الكتاب", "ar"),
    ("الجديد", "ar"),
    ("किताब", "hi"),
    ("हिन्दी", "hi"),
    ("ca phe", "vi"),
    ("été", "fr"),
    ("ETE", "fr"),
    ("e\u0301te\u0301", "fr"),
    ("brulee", "fr"),
    ("lodz", "pl"),
    ("μεγάλη", "el"),
    ("ежик", "ru"),
    ("שלום", "he"),
    ("ខ្មែរ", "km"),
    ("リージョン", "mixed"),
    ("kubernetes", "mixed"),
    ("550e8400-e29b-41d4-a716-446655440000", "id"),
]
HOSTILE = [
    "",
    " ",
    '"',
    "'",
    '"unclosed',
    "a OR",
    "AND OR NOT NEAR",
    "NEAR(a b)",
    "fox*",
    "*",
    "-fox",
    "words:fox",
    "fox AND (dog",
    "^fox",
    "fox + dog",
    "{fox}: dog",
    "<|endoftext|>",
    "%",
    "_",
    "a & !b | c:*",
    "<-> <2>",
    "\\",
    "\0",
    "fox\0dog",
    "\ud800",
    "x" * 1_000_000,
    "fox " * 250_000,
    "狐" * 300_000,
    "'; DROP TABLE memories; --",
    "e\u0301" * 1_000,
    "\u0301" * 10_000,
    "\U0001f600 \U0001f98a",
]


@pytest.fixture
def library(nodes: MemoryNodes) -> MemoryNodes:
    """Nodes over a store that holds a text of every script."""
    output(nodes.write({"memories": [{"key": name, "content": text} for name, text in TEXTS.items()]}))
    return nodes


def test_words_of_every_script_are_found(library: MemoryNodes) -> None:
    """A word of each text finds that text first, whatever its script, case and accents."""
    missed = {}
    for question, expected in QUESTIONS:
        found = output(library.search({"query": question}))
        if not found or found[0]["memory"]["key"] != expected:
            missed[question] = [result["memory"]["key"] for result in found]
    assert missed == {}


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: ascii(query)[:30])
@pytest.mark.parametrize("strategy", ["keyword", "substring"])
def test_any_query_is_text(library: MemoryNodes, strategy: str, query: str) -> None:
    """No query text is an operator or an error."""
    assert isinstance(output(library.search({"query": query, "strategy": strategy})), list)


@pytest.mark.parametrize("query", ["fox*", "-fox", '"fox"', "fox AND NOT dog", "words:fox", "fox|cat&"])
def test_operators_are_ordinary_characters(library: MemoryNodes, query: str) -> None:
    """A query with operators in it finds what its words find."""
    assert output(library.search({"query": query}))[0]["memory"]["key"] == "en"


def test_no_word_in_common_finds_nothing(library: MemoryNodes) -> None:
    """A query none of whose words is there finds nothing."""
    assert contents(library.search({"query": "zebra 火星人"})) == []


def test_more_matching_words_rank_higher(nodes: MemoryNodes) -> None:
    """Scores fall, and a text with more of the query's words comes before one with fewer."""
    remember(nodes, "lease", "shard lease ttl", "shard lease", "other words entirely", "nothing here")
    found = output(nodes.search({"query": "shard lease ttl"}))
    assert [result["memory"]["content"] for result in found] == ["shard lease ttl", "shard lease", "lease"]
    scores = [result["score"] for result in found]
    assert scores == sorted(scores, reverse=True)


def test_substrings(library: MemoryNodes) -> None:
    """The strategy substring finds any part of a text, by its letters, and every character literally."""
    ask = {"strategy": "substring"}
    assert contents(library.search({"query": "ick bro", **ask})) == [TEXTS["en"]]
    assert contents(library.search({"query": "学生在", **ask})) == [TEXTS["zh"]]
    assert contents(library.search({"query": "%", **ask})) == []
    assert contents(library.search({"query": "ick_bro", **ask})) == []


def test_content_of_any_shape_is_searched(nodes: MemoryNodes) -> None:
    """Texts and numbers anywhere in a content are found; the keys of objects are not."""
    remember(nodes, {"title": ["alpha", {"n": 42}], "x": True}, "other")
    assert len(output(nodes.search({"query": "alpha"}))) == 1
    assert len(output(nodes.search({"query": "42"}))) == 1
    assert output(nodes.search({"query": "title"})) == []


def test_limits_and_filters_apply_before_the_cut(nodes: MemoryNodes) -> None:
    """The filter is part of the search: results that fail it take no place from those that pass."""
    remember(nodes, *["fox"] * 20, metadata={"kind": "a"})
    remember(nodes, "fox and many other words in a long text", metadata={"kind": "b"})
    asked = {"query": "fox", "filter": {"kind": "b"}, "limit": 3}
    assert contents(nodes.search(asked)) == ["fox and many other words in a long text"]
    assert len(output(nodes.search({"query": "fox"}))) == 10
    assert len(output(nodes.search({"query": "fox", "limit": 3}))) == 3


@pytest.mark.parametrize("strategy", ["vector", "KEYWORD", "x"])
def test_unknown_strategies_are_refused(nodes: MemoryNodes, strategy: str) -> None:
    """A strategy that the store hasn't is UNSUPPORTED_STRATEGY."""
    assert code(nodes.search({"query": "x", "strategy": strategy})) == "UNSUPPORTED_STRATEGY"


@pytest.mark.parametrize(
    "asked", [{"query": 1}, {"query": None}, {"query": ["x"]}, {"query": "x", "options": {"a": 1}}]
)
def test_queries_are_text_without_options(nodes: MemoryNodes, asked: dict[str, object]) -> None:
    """Another query than text, and options that no text strategy has, are INVALID_INPUT."""
    assert code(nodes.search(asked)) == "INVALID_INPUT"


def test_long_documents_are_found_by_their_beginning(nodes: MemoryNodes) -> None:
    """A text far larger than what an index takes is stored whole and found by words near its start."""
    text = "needle " + " ".join(f"word{n}" for n in range(300_000))
    remember(nodes, text, "漢" + "".join(chr(0x4E00 + n % 20_000) for n in range(400_000)))
    assert contents(nodes.search({"query": "needle"})) == [text]
    assert len(output(nodes.search({"query": "漢"}))) == 1


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_the_most_common_words_are_left_out(
    backend: Backend, store: SqlMemoryStore, nodes: MemoryNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Very common words are left out while rarer ones are there; alone, all of them are asked for first."""
    monkeypatch.setattr(type(DIALECTS[backend.dialect]), "common_documents", 5)
    remember(nodes, *["common words"] * 7, *["other things"] * 7, "common and rare words", "rare")
    if backend.kind != "mariadb":
        with store._engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE")
    assert set(contents(nodes.search({"query": "common rare"}))) == {"rare", "common and rare words"}
    assert set(contents(nodes.search({"query": "common words"}))) == {"common words", "common and rare words"}
    assert len(contents(nodes.search({"query": "common things", "limit": 100}))) == 15


def test_updated_records_are_found_by_what_they_are_now(nodes: MemoryNodes) -> None:
    """After UPDATE, search and filters see the new content and metadata and no longer the old."""
    (one,) = remember(nodes, "alpha", metadata={"kind": "old"})
    output(nodes.update({"memories": [{"id": one, "content": "beta", "metadata": {"kind": "new"}}]}))
    assert contents(nodes.search({"query": "alpha"})) == []
    assert contents(nodes.search({"query": "beta"})) == ["beta"]
    assert contents(nodes.query({"filter": {"kind": "old"}})) == []
    assert contents(nodes.query({"filter": {"kind": "new"}})) == ["beta"]


def test_deleted_records_are_not_found(nodes: MemoryNodes) -> None:
    """After DELETE a search finds the others only."""
    one, _ = remember(nodes, "alpha one", "alpha two")
    output(nodes.delete({"ids": [one]}))
    assert contents(nodes.search({"query": "alpha"})) == ["alpha two"]
