"""Text as index words: one segmentation for every script and every database.

A database's own tokenizer depends on its locale, stop list and shortest word, and none of them knows
scripts without spaces. So the text is segmented here and each word is *spelled* in ASCII letters and
digits, which every full-text index keeps as it is. Documents and queries go through the same functions.
"""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise

from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory.chinese import dictionary_words

MAX_WORD_CHARS = 64  # longer runs are keys or noise; PostgreSQL refuses words above 2 KB
MAX_SPELLED_CHARS = 64  # with a namespace's tag, MySQL indexes words of up to 84
MAX_QUERY_WORDS = 64  # a query is a question, not a document; FTS5 refuses deep expressions
MAX_INDEX_WORDS = 150_000  # with the next one: a PostgreSQL tsvector stays below its 1 MB
MAX_INDEX_CHARS = 400_000  # of distinct spelled words

SHORT_CHARS = 20_000  # a text in Latin letters of this length cannot exceed either of them

_ASCII_KIND = "wo"
_ASCII_WORD = re.compile(rf"[a-z0-9]{{1,{MAX_WORD_CHARS}}}")
_PLURAL = re.compile(r"(?<=[a-z]{2}[a-hj-rtv-z])s(?![a-z0-9])")  # not bus, class, basis
_PLURAL_IES = re.compile(r"(?<=[a-z]{2})ies(?![a-z0-9])")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # PostgreSQL has no NUL in text, UTF-8 no lone surrogate
# accents of Latin, Greek and Cyrillic, points of Hebrew and Arabic, Arabic stretching: optional in writing
_OPTIONAL_MARKS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed]"
)
# letters that readers take for another one, and that Unicode doesn't decompose
_SAME_LETTERS = str.maketrans(
    {
        "ø": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "ı": "i",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "ى": "ي",
        "ی": "ي",
        "ک": "ك",
    }
)
# written without spaces (Han, kana, Thai, Lao, Burmese, Khmer …) or with particles attached (Hangul)
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\ua9e0-\ua9ff\uaa60-\uaa7f\uac00-\ud7ff\uf900-\ufaff\U00016fe0-\U00018dff\U0001aff0-\U0001b2ff"
    "\U00020000-\U0003ffff"
)
_HAN = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{3,}")


def fold(text: str) -> str:
    """Text without case, compatibility forms and optional marks: what a person would call the same words."""
    if text.isascii():
        return text.lower().replace("\0", " ")
    plain = _OPTIONAL_MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    same = unicodedata.normalize("NFKC", plain).translate(_SAME_LETTERS)
    return _UNSTORABLE.sub(" ", same)


def index_words(folded: str) -> Iterator[str]:
    """Every word of a folded document; text without spaces as characters, pairs and dictionary words."""
    for run, unspaced in _runs(folded):
        if not unspaced:
            yield run[:MAX_WORD_CHARS]
            continue
        characters = _clusters(run)
        yield from characters
        yield from _pairs(characters)
        yield from _dictionary_words(run)


def query_words(folded: str) -> Iterator[str]:
    """The words of a folded query; single characters only where there is no pair."""
    for run, unspaced in _runs(folded):
        if not unspaced:
            yield run[:MAX_WORD_CHARS]
            continue
        characters = _clusters(run)
        yield from _pairs(characters) or characters
        yield from _dictionary_words(run)


def spelled_document(folded: str, namespace: str) -> str:
    """The index text of a document, within what every index takes."""
    tag = namespace_tag(namespace)
    if len(folded) <= SHORT_CHARS and folded.isascii():
        prefix = tag + _ASCII_KIND
        return " ".join([prefix + word for word in _ASCII_WORD.findall(_singular(folded))])
    return " ".join(_bounded(tag + spell(word) for word in index_words(folded)))


def spelled_query(query: str, namespace: str) -> tuple[str, ...]:
    """The distinct index words of a query, in its order; none for a query without any letter or digit."""
    tag = namespace_tag(namespace)
    distinct: dict[str, None] = {}
    for word in query_words(fold(query)):
        distinct.setdefault(tag + spell(word))
        if len(distinct) == MAX_QUERY_WORDS:
            break
    return tuple(distinct)


def spell(word: str) -> str:
    """A word in [a-z0-9]: its kind first, so that none is a number, an operator or below three letters."""
    if word.isascii():
        return _ASCII_KIND + word
    spelled = "u" + word.encode("utf-8", "surrogatepass").hex()
    if len(spelled) <= MAX_SPELLED_CHARS:
        return spelled
    return "h" + hashlib.sha256(spelled.encode("ascii")).hexdigest()[:32]


def namespace_tag(namespace: str) -> str:
    """A prefix that keeps the words of each namespace apart in one index; none for the default namespace."""
    return (
        f"n{hashlib.sha256(namespace.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}" if namespace else ""
    )


def text_of(content: JsonValue) -> str:
    """The text of any JSON content: its strings and numbers, without the keys of objects."""
    if isinstance(content, str):
        return content
    return "\n".join(_leaves(content))


def _leaves(content: JsonValue) -> Iterator[str]:
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif _is_short_number(value):
            yield str(value)


def _is_short_number(value: JsonValue) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**MAX_WORD_CHARS)


def _runs(folded: str) -> Iterator[tuple[str, bool]]:
    text = _singular(folded)
    if text.isascii():
        yield from ((word, False) for word in _ASCII_WORD.findall(text))
        return
    for match in _run_pattern().finditer(text):
        yield match[0], match.lastgroup == "unspaced"


def _singular(folded: str) -> str:
    """Plurals of Latin words as the singular, on both sides of a search; other words in -s stay whole."""
    return _PLURAL.sub("", _PLURAL_IES.sub("y", folded))


def _clusters(run: str) -> list[str]:
    return [cluster[:MAX_WORD_CHARS] for cluster in _cluster_pattern().findall(run)]


def _pairs(characters: list[str]) -> list[str]:
    return [left + right for left, right in pairwise(characters)]


def _dictionary_words(run: str) -> Iterator[str]:
    for match in _HAN.finditer(run):
        yield from dictionary_words(match[0])


def _bounded(words: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    chars = 0
    for count, word in enumerate(words):
        if word not in seen:
            seen.add(word)
            chars += len(word)
        if count == MAX_INDEX_WORDS or chars > MAX_INDEX_CHARS:
            return
        yield word


@cache
def _marks() -> str:
    """Every combining mark as the inside of a character class; Python's ``\\w`` leaves them out."""
    marks = (point for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point))[0] == "M")
    return "".join(map(re.escape, map(chr, marks)))


@cache
def _run_pattern() -> re.Pattern[str]:
    spaced = rf"(?:(?![{_UNSPACED}])[^\W_]|(?![{_UNSPACED}])[{_marks()}])+"
    unspaced = rf"(?:(?=[{_UNSPACED}])[^\W_]|(?=[{_UNSPACED}])[{_marks()}])+"
    return re.compile(rf"(?P<unspaced>{unspaced})|(?P<spaced>{spaced})")


@cache
def _cluster_pattern() -> re.Pattern[str]:
    return re.compile(rf".[{_marks()}]*", re.DOTALL)
