"""Words of Chinese text by dictionary, where the ``cjk`` extra is installed."""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

_INSTALLED = find_spec("rjieba") is not None  # without the extra, n-grams alone still find every text
if _INSTALLED:
    import rjieba


@cache
def _dictionary() -> "rjieba.Jieba | None":
    """Opened on first use: it takes memory, and most texts have no Han character."""
    return rjieba.Jieba() if _INSTALLED else None


def dictionary_words(run: str) -> Sequence[str]:
    """Words of three and more characters in a run of Han characters; pairs are n-grams anyway."""
    dictionary = _dictionary()
    if dictionary is None:
        return ()
    return [word for word in dictionary.cut_for_search(run) if len(word) > 2]
