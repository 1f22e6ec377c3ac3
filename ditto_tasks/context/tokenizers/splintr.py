"""Vocabularies that come with the `tokens` extra: nothing is downloaded."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ditto_tasks.errors import SettingsError

INSTALLED: Final = find_spec("splintr") is not None
if INSTALLED or TYPE_CHECKING:
    from splintr import AnyTokenizer, Tokenizer

# Texts go in pieces: a run without a break takes more than linear time. A cut adds a token at most.
PIECE_CHARACTERS: Final = 16_384


class Vocabulary:
    """Counts tokens as a model's own tokenizer does. Special tokens in a text are text."""

    def __init__(self, encoding: str) -> None:
        self._tokenizer = _open(encoding)

    def count(self, text: str) -> int:
        return sum(
            len(self._tokenizer.encode_ordinary(_utf8(text[at : at + PIECE_CHARACTERS])))
            for at in range(0, len(text), PIECE_CHARACTERS)
        )


@cache
def _open(encoding: str) -> AnyTokenizer:
    """Opened once: it takes some tenths of a second."""
    if not INSTALLED:
        raise SettingsError(
            "MISSING_EXTRA", "counting a model's tokens needs the extra: pip install 'ditto-tasks[tokens]'"
        )
    return Tokenizer.from_pretrained(encoding)


def _utf8(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which have no UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
