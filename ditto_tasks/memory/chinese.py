"""Words of Chinese text by dictionary, where the ``cjk`` extra is installed."""

from collections.abc import Sequence
from functools import cache

try:
    import rjieba
except ImportError:  # the extra is not installed: n-grams alone still find every text
    rjieba = None


@cache
def _dictionary() -> "rjieba.Jieba | None":
    return rjieba.Jieba() if rjieba is not None else None


def dictionary_words(run: str) -> Sequence[str]:
    """Words of three and more characters in a run of Han characters; pairs are n-grams anyway."""
    dictionary = _dictionary()
    if dictionary is None:
        return ()
    return [word for word in dictionary.cut_for_search(run) if len(word) > 2]
