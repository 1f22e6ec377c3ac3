"""How a run's states and times are put into words, in the terminal and in pictures. Pure."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, get_args

from ditto_tasks.pipelines.run_views import NodeState, NodeView, RunView

STATES: Final[tuple[NodeState, ...]] = get_args(NodeState)
SIGNS: Final[Mapping[NodeState, str]] = MappingProxyType(
    {"waiting": "○", "sent": "→", "running": "▶", "done": "✓", "failed": "✗", "skipped": "–"}
)
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
WIDE: Final = "WF"  # East Asian characters that take two places
ELLIPSIS: Final = "…"
UNSEEN: Final = ("Cc", "Cs", "Cf", "Zl", "Zp")  # they steer a terminal, turn text round, or are no text


def elapsed(ms: int) -> str:
    """A time as a person reads it: 850 ms, 1.2 s, 12 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    ms = max(ms, 0)
    if ms < SECOND_MS:
        return f"{ms} ms"
    if ms < MINUTE_MS:
        return f"{ms // 100 / 10} s" if ms < 10 * SECOND_MS else f"{ms // SECOND_MS} s"
    for unit, part, names in ((DAY_MS, HOUR_MS, "d h"), (HOUR_MS, MINUTE_MS, "h min")):
        if ms >= unit:
            return _two(ms, unit, part, names)
    return _two(ms, MINUTE_MS, SECOND_MS, "min s")


def _two(ms: int, unit: int, part: int, names: str) -> str:
    large, small = names.split()
    rest = ms % unit // part
    return f"{ms // unit} {large}" + (f" {rest} {small}" if rest else "")


def node_time(node: NodeView, now_ms: int) -> str:
    """How long a node took, or has been at work; nothing before it began."""
    if node.started_ms is None or node.state in ("waiting", "sent"):
        return ""
    return elapsed((node.ended_ms or now_ms) - node.started_ms)


def run_time(run: RunView) -> str:
    """How long a run took, or has been running."""
    return elapsed((run.ended_ms or run.now_ms) - run.opened_ms)


def count_of(run: RunView) -> Counter[NodeState]:
    """How many nodes are in each state."""
    return Counter(node.state for node in run.nodes)


def headline(run: RunView) -> str:
    """What kind of run it is, how it stands, how far it has come and how long that took."""
    what = run.kind if run.kind == run.name else f"{run.kind} {run.name}"
    parts = [what, run.state, f"{run.settled} of {len(run.nodes)} nodes", run_time(run)]
    if run.iteration is not None:
        parts.insert(2, f"iteration {run.iteration}")
    if run.state == "running":
        left = run.deadline_ms - run.now_ms
        parts.append(f"{elapsed(left)} left" if left > 0 else "past its deadline")
    return plain(" · ".join(parts))


def error_line(run: RunView) -> str:
    """Why a run failed, and where; nothing without an error."""
    if run.error is None:
        return ""
    where = f" (node {run.error.node})" if run.error.node else ""
    return plain(f"{run.error.code}{where}: {run.error.message}")


def plain(text: str) -> str:
    """The text with a sign in place of each character that a reader does not see."""
    return "".join("\ufffd" if unicodedata.category(char) in UNSEEN else char for char in text)


def width_of(text: str) -> int:
    """The places that a text takes in a fixed font."""
    return sum(1 + (unicodedata.east_asian_width(char) in WIDE) for char in text)


def cut(text: str, places: int) -> str:
    """The text, or as much of it as fits with an ellipsis."""
    if width_of(text) <= places:
        return text
    kept = ""
    for char in text:
        if width_of(kept + char) > places - 1:
            break
        kept += char
    return kept + ELLIPSIS
