"""A run in the terminal: its nodes by level with states and times, or levels in figures where it has many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from ditto_tasks.pipelines.run_layout import levels_of
from ditto_tasks.pipelines.run_views import NodeState, NodeView, RunSummary, RunView, RunViewState
from ditto_tasks.pipelines.run_words import (
    SIGNS,
    STATES,
    count_of,
    cut,
    elapsed,
    error_line,
    headline,
    node_time,
    plain,
)

DETAILED: Final = 60  # more nodes are shown by level and state, unless all are asked for
LISTED: Final = 20  # of those that are at work or failed, where levels are shown
ID_PLACES: Final = 32
WHAT_PLACES: Final = 12  # at least, of kind and name
NAME_PLACES: Final = 24
AFTER_PLACES: Final = 40
TIMELINE: Final = 24
LEVEL_BAR: Final = 30
STYLES: Final[Mapping[NodeState, str]] = MappingProxyType(
    {
        "waiting": "dim",
        "sent": "magenta",
        "running": "bold blue",
        "done": "green",
        "failed": "bold red",
        "skipped": "yellow",
    }
)
RUN_STYLES: Final[Mapping[RunViewState, str]] = MappingProxyType(
    {"running": "bold blue", "done": "bold green", "failed": "bold red", "cancelled": "bold yellow"}
)


def drawn(run: RunView, *, everything: bool = False) -> RenderableType:
    """The whole picture of a run."""
    parts: list[RenderableType] = [
        Text(headline(run), RUN_STYLES[run.state]),
        Text(f"run {plain(run.id)}", "dim"),
    ]
    error = error_line(run)
    if error:
        parts.append(Text(error, "red"))
    if run.nodes:
        parts += [_counts(run), Text()]
        parts += [_nodes(run)] if everything or len(run.nodes) <= DETAILED else _levels(run)
    return Group(*parts)


def listing(runs: Sequence[RunSummary], now_ms: int) -> Table:
    """Runs in a table, the code of one that failed below its id: nothing of them is cut at 80 columns."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("run", no_wrap=True)
    table.add_column("what", overflow="fold", min_width=WHAT_PLACES)
    for name in ("state", "nodes", "age"):
        table.add_column(name, no_wrap=True)
    for run in runs:
        total = "?" if run.total is None else str(run.total)
        table.add_row(
            _named(run),
            Text(_what(run)),
            Text(run.state, RUN_STYLES[run.state]),
            f"{run.settled}/{total}",
            elapsed(now_ms - run.opened_ms),
        )
    return table


def _named(run: RunSummary) -> Text:
    name = Text(plain(run.id))
    return name if run.code is None else name.append(f"\n  {plain(run.code)}", "red")


def _what(run: RunSummary) -> str:
    return run.kind if run.kind == run.name else f"{run.kind} {cut(plain(run.name), NAME_PLACES)}"


def _counts(run: RunView) -> Text:
    counts = count_of(run)
    shown = [
        Text(f"{SIGNS[state]} {counts[state]} {state}", STYLES[state]) for state in STATES if counts[state]
    ]
    return Text("   ").join(shown)


def _nodes(run: RunView) -> Table:
    """One row a node, its level's number before the first; the bar shows when it ran within the run."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for name in ("level", "node", "type", "state", "time", "when", "after"):
        may_shrink = name in ("node", "type", "after")  # what stands there is one word, and is cut
        justify: JustifyMethod = "right" if name == "time" else "left"
        table.add_column(name, no_wrap=not may_shrink, overflow="ellipsis", justify=justify)
    for at, level in enumerate(levels_of(run.nodes)):
        for node in level:
            table.add_row(str(at + 1) if node is level[0] else "", *_cells(node, run))
        if level:
            table.add_section()
    return table


def _cells(node: NodeView, run: RunView) -> Iterator[Text]:
    style = STYLES[node.state]
    again = f" ({node.attempt}×)" if (node.attempt or 0) > 1 else ""
    yield Text(cut(plain(node.id), ID_PLACES), "bold")
    yield Text(plain(node.node))
    yield Text(f"{SIGNS[node.state]} {node.state}{again}", style)
    yield Text(node_time(node, run.now_ms))
    yield Text(_timeline(node, run), style)
    yield Text(cut(plain(",".join(node.dependencies)), AFTER_PLACES), "dim")


def _timeline(node: NodeView, run: RunView) -> str:
    """A bar from the node's start to its end, on a line that stands for the run's time so far."""
    if node.started_ms is None:
        return ""
    whole = max((run.ended_ms or run.now_ms) - run.opened_ms, 1)
    begun, ended = (
        min(max(round((ms - run.opened_ms) / whole * TIMELINE), 0), TIMELINE)
        for ms in (node.started_ms, node.ended_ms or run.ended_ms or run.now_ms)
    )
    begun = min(begun, TIMELINE - 1)
    return " " * begun + "━" * max(ended - begun, 1)


def _levels(run: RunView) -> list[RenderableType]:
    """One row a level, then those nodes that one looks for: at work and failed."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("level", justify="right")
    table.add_column("nodes", justify="right")
    table.add_column("states", no_wrap=True)
    table.add_column("")
    table.add_column("time", justify="right")
    for at, level in enumerate(levels_of(run.nodes)):
        counts = [(state, sum(node.state == state for node in level)) for state in STATES]
        there = [(state, count) for state, count in counts if count]
        words = Text("  ").join(Text(f"{SIGNS[state]} {count}", STYLES[state]) for state, count in there)
        table.add_row(str(at + 1), str(len(level)), _bar(there), words, _level_time(level, run.now_ms))
    return [table, *_looked_for(run, "failed"), *_looked_for(run, "running")]


def _bar(counts: Iterable[tuple[NodeState, int]]) -> Text:
    """Blocks in the states' colours; the words beside it tell of those that are too few for a block."""
    counts = list(counts)
    whole = sum(count for _, count in counts)
    bar, before = Text(), 0
    for state, count in sorted(counts, key=lambda pair: _BAR_ORDER.index(pair[0])):
        begun, ended = (round(at / whole * LEVEL_BAR) for at in (before, before + count))
        bar.append(("░" if state in ("waiting", "skipped") else "▇") * (ended - begun), STYLES[state])
        before += count
    return bar


_BAR_ORDER: Final[tuple[NodeState, ...]] = ("done", "failed", "running", "sent", "skipped", "waiting")


def _level_time(level: Sequence[NodeView], now_ms: int) -> str:
    begun = [node.started_ms for node in level if node.started_ms is not None]
    if not begun:
        return ""
    ended = [node.ended_ms or now_ms for node in level if node.started_ms is not None]
    return elapsed(max(ended) - min(begun))


def _looked_for(run: RunView, state: NodeState) -> Iterator[RenderableType]:
    found = [node for node in run.nodes if node.state == state]
    if not found:
        return
    yield Text()
    yield Text(f"{SIGNS[state]} {state}", STYLES[state])
    table = Table.grid(padding=(0, 2))
    for node in found[:LISTED]:
        shown = (cut(plain(node.id), ID_PLACES), plain(node.node), node_time(node, run.now_ms))
        table.add_row("", *map(Text, shown))
    yield table
    if len(found) > LISTED:
        yield Text(f"  and {len(found) - LISTED} more; --all shows every node", "dim")
