"""The demo's texts and its account: passages that can be quoted, sums that add up."""

import pytest
from click import UsageError

from ditto_tasks.cli.account import entered_context, hits_of, timeline, weigh
from ditto_tasks.cli.texts import PASSAGE_CHARACTERS, passages_in, split_text
from ditto_tasks.client import Event
from ditto_tasks.context import ContextNodes

GOAL = {"id": "goal", "content": "answer", "metadata": {"currentGoal": True}}


def found(*texts):
    output = [
        {
            "memory": {"id": str(n), "content": text, "metadata": {"source": "a.md", "heading": "H"}},
            "score": n,
        }
        for n, text in enumerate(texts)
    ]
    return {"executionId": "x", "node": "MEMORY.SEARCH", "status": "success", "output": output}


def test_a_text_is_cut_at_headings_and_between_paragraphs():
    """A passage never spans a heading, and no paragraph is cut."""
    long = "word " * (PASSAGE_CHARACTERS // 6)
    text = f"# One\n\nfirst\n\nsecond\n\n## Two\nthird\n\n{long}\n\n{long}"
    passages = list(split_text(text))
    assert passages[0] == ("One", "first\n\nsecond")
    assert [heading for heading, _ in passages[1:]] == ["Two", "Two"]
    assert "".join(body for _, body in passages).count("word") == 2 * (PASSAGE_CHARACTERS // 6)


def test_rows_of_tables_are_read_alone():
    """Each row becomes a sentence that names its columns; escaped bars belong to their cells."""
    text = "# H\n\n| what | then |\n| --- | --- |\n| it dies | it `a\\|b` runs |\n| it hangs | it stops |"
    [(_, body)] = split_text(text)
    assert body.split("\n\n") == ["what: it dies; then: it `a|b` runs", "what: it hangs; then: it stops"]


def test_passages_are_keyed_by_file_and_place(tmp_path):
    """The same folder gives the same keys, text files only, in the order of their paths."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b")
    (tmp_path / "a.md").write_text("# A\n\na")
    (tmp_path / "c.png").write_text("c")
    assert [each.draft()["key"] for each in passages_in(tmp_path)] == ["a.md#0", "sub/b.txt#0"]


def test_a_folder_without_texts_is_a_usage_error(tmp_path):
    """The message names the folder."""
    with pytest.raises(UsageError, match=str(tmp_path)):
        passages_in(tmp_path)


def test_hits_show_where_they_come_from():
    """Each hit has its search, its score, its item's id and its document."""
    [hit] = hits_of("keyword", found("text"))
    assert (hit.search, hit.score, hit.item_id, hit.source) == ("keyword", 0.0, "memory:0", "a.md › H")


def test_the_arithmetic_is_selects_own():
    """Every item is weighed in SELECT's order, and selected exactly if it still fitted."""
    context = entered_context(GOAL, [found("why " * 40, "why not", "unrelated")])
    selection = ContextNodes().select(context=context, purpose="infer", query="why", max_tokens=10)
    rows = weigh(context, selection, "why", 10)
    assert [row.item_id for row in rows if row.selected] == list(selection.selected_item_ids)
    for row in rows:
        assert row.selected is (row.used_before + row.tokens <= 10)
    assert any(not row.selected for row in rows)


def test_the_timeline_begins_with_the_first_step():
    """Times are relative to the first step's begin, in the order in which steps began."""
    told = [("1000-0", "a", "started"), ("1005-0", "a", "finished"), ("1006-0", "b", "started")]
    told += [("1016-0", "b", "finished")]
    events = [Event(at, "step", {"step": step, "status": status}) for at, step, status in told]
    assert timeline([*events, Event("1020-0", "pipeline", {"status": "done"})]) == [("a", 0, 5), ("b", 6, 10)]
