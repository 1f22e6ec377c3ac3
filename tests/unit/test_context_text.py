"""Words, texts and sizes of contents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.json_strategies import TEXT

from ditto_tasks.context import ContextItem
from ditto_tasks.context.text import estimated_tokens, has_term, terms, text_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Foo-bar foo", {"foo-bar", "foo"}),
        ("x² a_b --", {"x²", "a_b", "--"}),
        ("cafe\u0301", {"cafe"}),
        ("हिन्दी", {"ह", "न", "द"}),
        ("İstanbul", {"i", "stanbul"}),
        ("STRASSE straße", {"strasse", "straße"}),
        ("ΟΔΟΣ", {"οδος"}),
        ("你好世界", {"你好世界"}),
        ("!?. ,", set()),
        ("", set()),
        ("٣ Ⅷ ①", {"٣", "ⅷ", "①"}),
    ],
)
def test_terms(text: str, expected: set[str]) -> None:
    """Terms are lower-cased runs of letters, numbers, `_` and `-`; marks and punctuation end them."""
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("as is", "as is"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": None}], "a null"),
        ([{"type": "text", "text": {"k": 1}}], "[object Object]"),
        ([{"type": "text", "text": [1, None, ["b", True]]}], "1,,b,true"),
        ([{"type": "text", "text": 1.0}, {"type": "text", "text": False}], "1 false"),
        (["foo\nbar", 3], '"foo\\nbar" 3'),
        ([{"type": "text"}], '{"type":"text"}'),
        ({"t": "foo\nbar"}, '{"t":"foo\\nbar"}'),
        (None, "null"),
        (1e21, "1e+21"),
        ([], ""),
    ],
)
def test_text_of_content(content: Any, expected: str) -> None:
    """Texts of parts as ECMAScript's String gives them, everything else as canonical JSON."""
    assert text_of(content) == expected


@given(
    TEXT | st.text(alphabet="aB-_ .\u0301é", max_size=20), st.text(alphabet="ab-_é", min_size=1, max_size=3)
)
def test_looking_up_a_term_is_splitting(text: str, term: str) -> None:
    """has_term finds exactly the terms that splitting the text gives."""
    assert has_term(text.lower(), term) == (term in terms(text))


@pytest.mark.parametrize(
    ("content", "size"),
    [
        ("éé", 6),
        (None, 4),
        (1.0, 1),
        (1e21, 5),
        ("\ud800x", 9),
        ("😀", 6),
        ([1.0, {"a": 2**70}], 32),
        (2**63, 19),
    ],
)
def test_inline_bytes(content: Any, size: int) -> None:
    """The UTF-8 length of what JSON.stringify writes, quotes included."""
    assert ContextItem(id="a", content=content).inline_bytes == size


@pytest.mark.parametrize(("size", "tokens"), [(1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_bytes_are_a_token(size: int, tokens: int) -> None:
    """The fallback estimate rounds up."""
    assert estimated_tokens(size) == tokens
