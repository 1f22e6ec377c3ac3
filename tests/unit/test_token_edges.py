"""Edges of token counts: corrections, calls, and what pictures tell of themselves."""

from __future__ import annotations

from ditto_tasks.context.tokenizers.correction import MEMORY, Correction
from ditto_tasks.context.tokenizers.counting import Counter
from ditto_tasks.context.tokenizers.media import ANTHROPIC_RULE, MediaRule, image_size, media_tokens
from ditto_tasks.context.tokenizers.models import ModelRules


def test_one_absurd_report_is_bounded() -> None:
    """It counts as at most ten times and at least a tenth of what was estimated."""
    assert Correction().learned(100, 10**9) == Correction(100, 1_000)
    assert Correction().learned(1_000, 1) == Correction(1_000, 100)


def test_old_reports_count_half_once_there_are_many() -> None:
    """Past two million tokens; before that they count whole."""
    assert Correction(MEMORY, MEMORY).learned(100, 200) == Correction(MEMORY + 100, MEMORY + 200)
    more = MEMORY + 2
    assert Correction(more, more).learned(100, 200) == Correction(more / 2 + 100, more / 2 + 200)


def test_corrected_counts_are_rounded_up() -> None:
    """A part of a token is one, and a whole number stays."""
    learned = Correction(1_000, 2_000)  # a ratio of four by three
    assert [learned.apply(tokens) for tokens in (3, 10)] == [4, 14]
    assert Correction().apply(7) == 7


def test_a_call_costs_the_same_in_both_forms() -> None:
    """The overhead of a call, its name and its arguments."""
    counter = Counter(len, ModelRules("any", call=8))
    block = {"type": "tool_use", "id": "c", "name": "find", "input": {}}
    function = {"name": "find", "arguments": "{}"}
    message = {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    assert counter.content([block]) == counter.content(message) == 8 + len("find") + len("{}")


def test_low_detail_is_a_price_of_tiles_only() -> None:
    """Who charges by pixels knows no detail."""
    block = {"type": "image_url", "image_url": {"detail": "low", "url": "https://example.org/a.png"}}
    assert media_tokens(block, MediaRule()) == MediaRule().base
    assert media_tokens(block, ANTHROPIC_RULE) == ANTHROPIC_RULE.unknown


def test_tables_of_a_jpeg_are_no_frame() -> None:
    """Huffman tables, extensions and arithmetic tables before the frame do not tell its size."""
    frame = b"\xff\xc0\x00\x11\x08" + (480).to_bytes(2) + (640).to_bytes(2) + bytes(10)
    for kind in (0xC4, 0xC8, 0xCC):
        table = bytes((0xFF, kind, 0x00, 0x08)) + b"\x01" * 6
        assert image_size(b"\xff\xd8" + table + frame) == (640, 480)
