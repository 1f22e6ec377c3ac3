"""Runs in the terminal: every node of a small one, levels of a large one, and no text that steers."""

from io import StringIO

import pytest
from rich.console import Console, RenderableType
from support.views import OPENED_MS, node_view, run_view

from ditto_tasks.cli.run_drawing import DETAILED, LISTED, drawn, listing
from ditto_tasks.pipelines.run_views import NodeView, RunError, RunSummary

LAYERS = [
    node_view(f"n{at}", [f"n{at - 50}"] if at >= 50 else [], "failed" if at % 40 == 7 else "done", took=1)
    for at in range(1_000)
]


def shown(what: RenderableType, width: int = 120) -> str:
    """What a terminal of this width shows, without colours."""
    out = StringIO()
    Console(file=out, width=width, no_color=True).print(what)
    return out.getvalue()


def test_every_node_of_a_small_run_is_a_row() -> None:
    """Level, id, type, state, time, when it ran, and after what."""
    nodes = [
        node_view("a"),
        node_view("b", ["a"], "failed", began=5_000, took=2_500),
        node_view("c", ["a", "b"], "skipped"),
    ]
    error = RunError(code="NO_LUCK", message="it did not work", node="b")
    lines = shown(drawn(run_view(nodes, state="failed", error=error))).splitlines()
    assert lines[0].startswith("graph g · failed · 2 of 3 nodes · 10 s")
    assert lines[2] == "NO_LUCK (node b): it did not work"
    [row] = [line for line in lines if line.startswith("2 ")]
    assert row.split() == ["2", "b", "MEMORY.SEARCH", "✗", "failed", "2.5", "s", "━━━━━━", "a"]
    assert row.index("━") - lines[5].index("when") == 12  # halfway through the run
    assert lines[-1].rstrip().endswith("a,b")


@pytest.mark.parametrize("width", [60, 80, 200])
def test_state_and_time_are_never_cut(width: int) -> None:
    """On a narrow terminal ids and types give way."""
    text = shown(drawn(run_view([node_view("n" * 64, [], "running")])), width)
    assert "▶ running" in text
    assert "10 s" in text
    assert max(map(len, text.splitlines())) <= width


def test_a_thousand_nodes_are_twenty_rows() -> None:
    """Each level tells its states in figures; failed nodes are named up to a limit, all with --all."""
    run = run_view(LAYERS)
    text = shown(drawn(run))
    rows = [line for line in text.splitlines() if line.split()[:1] and line.split()[0].isdecimal()]
    assert [row.split()[0] for row in rows] == [str(level) for level in range(1, 21)]
    assert all(" 50 " in row for row in rows)
    assert f"and {25 - LISTED} more; --all shows every node" in text
    assert len(text.splitlines()) < DETAILED
    everything = shown(drawn(run, everything=True))
    assert all(f" {node.id} " in everything for node in LAYERS)


def test_a_listing_says_how_far_runs_have_come() -> None:
    """Progress, age and error code; a flow does not know how many steps are still to come."""
    runs = [
        RunSummary(
            id="r1",
            kind="graph",
            name="[red]x[/red]",
            state="failed",
            opened_ms=OPENED_MS,
            deadline_ms=OPENED_MS,
            ended_ms=OPENED_MS + 3_000,
            settled=3,
            total=10,
            code="NO_LUCK",
        ),
        RunSummary(
            id="r2",
            kind="flow",
            name="react",
            state="running",
            opened_ms=OPENED_MS,
            deadline_ms=OPENED_MS,
            settled=2,
        ),
    ]
    rows = shown(listing(runs, OPENED_MS + 60_000)).splitlines()[1:4]
    first, code, second = (" ".join(row.split()) for row in rows)
    assert (first, code) == ("r1 graph [red]x[/red] failed 3/10 1 min", "NO_LUCK")
    assert second == "r2 flow react running 2/? 1 min"


def test_a_listed_id_can_be_copied() -> None:
    """On a terminal of 80 columns a run's id is on one line, and so is its code."""
    identity = "0b6f7a1e-1111-4222-8333-abcdefabcdef"
    run = RunSummary(
        id=identity,
        kind="answer",
        name="answer",
        state="failed",
        opened_ms=OPENED_MS,
        deadline_ms=OPENED_MS,
        code="PIPELINE_DEADLINE_EXCEEDED",
    )
    text = shown(listing([run], OPENED_MS), 80)
    assert identity in text
    assert "PIPELINE_DEADLINE_EXCEEDED" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x1b]0;title\x07", "a\nb", "\u202eabc", "[bold]"])
def test_no_text_steers_the_terminal(evil: str) -> None:
    """Control characters and markup in names and messages are shown as text."""
    nodes: list[NodeView] = [node_view("a").model_copy(update={"id": evil, "node": evil})]
    run = run_view(
        nodes, name=evil, id=evil, state="failed", error=RunError(code="C", message=evil, node=evil)
    )
    text = shown(drawn(run))
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    if evil == "[bold]":
        assert text.count("[bold]") >= 3
