"""How large a content is, and which words it has."""

from __future__ import annotations

import re
from typing import Final

from ditto_tasks.canonical import canonical_text, number_text
from ditto_tasks.json_values import JsonValue

_TERM: Final = re.compile(r"[\w-]+")
BYTES_A_TOKEN: Final = 4


def estimated_tokens(size_bytes: int) -> int:
    """The fallback estimate: four bytes a token, rounded up."""
    return -(-size_bytes // BYTES_A_TOKEN)


def text_of(content: JsonValue) -> str:
    """The text in which words are looked for: texts of parts as they are, anything else as JSON."""
    match content:
        case str():
            return content
        case list():
            return " ".join(map(_part_text, content))
    return canonical_text(content)


def terms(text: str) -> frozenset[str]:
    """Maximal runs of letters, numbers, `_` and `-`, lower-cased; a combining mark ends a run."""
    return frozenset(_TERM.findall(text.lower()))


def has_term(text: str, term: str) -> bool:
    """Whether `term` is one of the terms of `text`, which is lower-case already.

    Looks the term up instead of splitting the whole text, which is several times slower.
    """
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        if not (_is_word(text[start - 1 : start]) or _is_word(text[end : end + 1])):
            return True
        start = text.find(term, start + 1)
    return False


def _is_word(character: str) -> bool:
    r"""Whether it is in the class `[\w-]`; the empty string, at either end of a text, is not."""
    return character.isalnum() or character in ("_", "-")


def _part_text(part: JsonValue) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and "text" in part:
        return _js_string(part["text"])
    return canonical_text(part)


def _js_string(value: JsonValue) -> str:
    """ECMAScript's String(value)."""
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number_text(value)
        case list():
            return ",".join(map(_js_element, value))
        case dict():
            return "[object Object]"


def _js_element(value: JsonValue) -> str:
    return "" if value is None else _js_string(value)
