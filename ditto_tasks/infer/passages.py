"""Finds the sentences of some texts that say most about a question, in any language. Pure."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

# what ends a sentence: Latin, CJK, Arabic, Devanagari, Armenian, Ethiopic
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？．؟۔।॥։።])\s*")
# a line that starts a block of its own in Markdown or plain text
_BLOCK_START = re.compile(r"\s*(?:[-*+#>|]|\d+[.)]\s|```|={3,}|-{3,})")
# what is in Markdown and no sentence: fenced code, and the head of a table with the rule below it
_NO_PROSE = re.compile(r"^```.*?^```[^\n]*$|^\|[^\n]*\n\|[ :|-]+$", re.MULTILINE | re.DOTALL)
# scripts written without spaces between words: compared by pairs of characters
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_STEM = 5  # characters: enough to keep words apart, few enough to join their inflected forms
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75  # the usual BM25 constants
_FRAGMENT_TERMS = 7  # four words and their pairs: a line with fewer is a heading or a cell, rarely an answer
_MAX_SENTENCE = 600  # characters: a table or minified code is not a sentence


@dataclass(frozen=True)
class Passage:
    """A sentence, the text that it comes from, and how much it says about the question."""

    source: str
    sentence: str
    score: float


def sentences(text: str) -> list[str]:
    """Split a text into sentences; hard-wrapped lines of a paragraph are joined first."""
    found = (part.strip() for block in _blocks(text) for part in _SENTENCE_END.split(block))
    return [part for part in found if part and len(part) <= _MAX_SENTENCE]


def _blocks(text: str) -> Iterable[str]:
    block: list[str] = []
    for line in _NO_PROSE.sub("\n", text).splitlines():
        if block and (not line.strip() or _BLOCK_START.match(line) or block[0].startswith("#")):
            yield " ".join(block)
            block = []
        if line.strip():
            block.append(line.strip())
    if block:
        yield " ".join(block)


def terms(text: str) -> set[str]:
    """Return the comparable terms of a text: stems of words, alone and with the next one.

    Where words are not spaced, pairs of characters stand for both.
    """
    words = _words(text)
    stems = [word[:_STEM] for word in words]
    found = {f"{left} {right}" for left, right in pairwise(stems)}
    for word, stem in zip(words, stems, strict=True):
        found |= _pairs(word) if _UNSPACED.search(word) else {stem}
    return found


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(char if _is_word_char(char) else " " for char in folded).split()


@lru_cache(maxsize=4096)
def _is_word_char(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


def _pairs(word: str) -> set[str]:
    return {left + right for left, right in pairwise(word)} or {word}


def rank(question: str, texts: Sequence[tuple[str, str]]) -> list[Passage]:
    """Return the sentences of (source, text) pairs that share terms with the question, best first."""
    wanted = terms(question)
    pool = _distinct((source, sentence) for source, text in texts for sentence in sentences(text))
    bags = [terms(sentence) for _, sentence in pool]
    weights = _rarity(wanted, bags)
    mean = sum(map(len, bags)) / max(1, len(bags))
    scored = [
        Passage(source, sentence, _score(bag, weights, mean))
        for (source, sentence), bag in zip(pool, bags, strict=True)
    ]
    # the sort is stable: of equal passages the one that comes first in the context wins
    return sorted((item for item in scored if item.score > 0), key=lambda item: -item.score)


def _distinct(pool: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    seen: dict[str, str] = {}
    for source, sentence in pool:
        seen.setdefault(sentence, source)
    return [(source, sentence) for sentence, source in seen.items()]


def _rarity(wanted: set[str], bags: Sequence[set[str]]) -> dict[str, float]:
    counts = Counter(term for bag in bags for term in bag & wanted)
    # squared: a question is mostly made of words that say little, and are found everywhere
    return {term: math.log(1 + (len(bags) - n + 0.5) / (n + 0.5)) ** 2 for term, n in counts.items()}


def _score(bag: set[str], weights: dict[str, float], mean: float) -> float:
    shared = sum(weight for term, weight in weights.items() if term in bag)
    length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(bag) / max(mean, 1.0)
    fragment = 0.5 if len(bag) < _FRAGMENT_TERMS else 1.0
    return fragment * shared * (_SATURATION + 1) / (1 + _SATURATION * length)
