"""Sizes that may shrink and never grow past their limit.

As a script it prints the figures: `python tests/support/ratchet.py`.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.source import Source, sources

MEDIAN_LINES = 8
MOST_LINES = 25  # nine functions of ten
LONGEST_LINES = 60
FILE_LINES = 300
TEST_FILE_LINES = 450


def function_lengths(files: list[Source]) -> list[tuple[int, str]]:
    """Length and place of every function, the longest first."""
    return sorted(
        ((file.length(function), f"{file.name}:{function.lineno} {function.name}"))
        for file in files
        for function in file.functions()
    )[::-1]


def long_files(files: list[Source], limit: int) -> list[str]:
    """Files with more code lines than `limit`."""
    return [f"{file.name}: {len(file.code_lines)}" for file in files if len(file.code_lines) > limit]


def tenth_decile(lengths: list[tuple[int, str]]) -> int:
    """The length that nine functions of ten do not pass."""
    ordered = sorted(length for length, _ in lengths)
    return ordered[int(len(ordered) * 0.9)] if ordered else 0


def report() -> str:
    """The figures of today."""
    files = sources("ditto_tasks")
    lengths = function_lengths(files)
    median = statistics.median(length for length, _ in lengths)
    lines = [
        f"{len(lengths)} functions, median {median:g}, nine of ten <= {tenth_decile(lengths)} lines; longest:"
    ]
    lines += [f"  {length:3d}  {place}" for length, place in lengths[:10]]
    lines += [
        "files over the limit:",
        *long_files(files, FILE_LINES),
        *long_files(sources("tests"), TEST_FILE_LINES),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
