"""Common words are looked for once in ten minutes, rare ones every time."""

from collections.abc import Sequence

from ditto_tasks.memory.stores.sql.frequent_words import KEPT_S, MOST, FrequentWords


def test_a_common_word_is_asked_about_once_in_a_while() -> None:
    """A word that was common is not looked for again until its time is over; a rare one always is."""
    asked: list[list[str]] = []
    now = 0.0
    words = FrequentWords(lambda: now)

    def look(unknown: Sequence[str]) -> set[str]:
        asked.append(list(unknown))
        return {word for word in unknown if word.startswith("c")}

    assert words.among(["c1", "r1"], look) == {"c1"}
    assert words.among(["c1", "r1", "c2"], look) == {"c1", "c2"}
    assert words.among(["c1", "c2"], look) == {"c1", "c2"}
    now = KEPT_S
    assert words.among(["c1"], look) == {"c1"}
    assert asked == [["c1", "r1"], ["r1", "c2"], ["c1"]]


def test_only_so_many_words_are_remembered() -> None:
    """Over ten thousand words the memory begins anew, and answers as before."""
    words = FrequentWords(lambda: 0.0)
    for start in range(0, 3 * MOST, 1_000):
        some = [str(start + n) for n in range(1_000)]
        assert words.among(some, set) == set(some)
    assert len(words._until_s) <= MOST
