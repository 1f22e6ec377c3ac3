"""A run as an SVG picture: nodes by level, edges, states in words and colours, times, a legend. Pure.

It needs no script and no font, follows the reader's light or dark scheme, and says what it shows to those who
do not see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

from ditto_tasks.pipelines.run_layout import BOX_HEIGHT, BOX_WIDTH, Edge, Layout, Placed, Point, lay_out
from ditto_tasks.pipelines.run_views import NodeState, RunView
from ditto_tasks.pipelines.run_words import (
    SIGNS,
    STATES,
    count_of,
    cut,
    error_line,
    headline,
    node_time,
)

MARGIN: Final = 24.0
LINE: Final = 22.0
HEADER: Final = 2 * LINE + 6  # without the line of an error
LEGEND: Final = 36.0
LEGEND_ITEM: Final = 128.0
LEAST_WIDTH: Final = 2 * MARGIN + len(STATES) * LEGEND_ITEM
HEADLINE_PLACE: Final = 9.2  # width of a character of the headline
TEXT_PLACE: Final = 7.4  # and of the lines below it
ID_PLACES: Final = 21  # of a box
TYPE_PLACES: Final = 28
MAX_EDGES: Final = 6_000  # more would be a blot; the first are drawn, and the legend says so
NOT_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

# state -> colour on a light ground, on a dark ground; each at least 4.5:1 against its box
COLOURS: Final[dict[NodeState, tuple[str, str]]] = {
    "waiting": ("#57606a", "#9aa4b2"),
    "sent": ("#6639ba", "#c4a7ff"),
    "running": ("#0550ae", "#79b8ff"),
    "done": ("#116329", "#56d364"),
    "failed": ("#b3131f", "#ff8e87"),
    "skipped": ("#7a4b00", "#e3b341"),
}
_STYLE: Final = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif;font-size:12px;fill:#1f2328}
.ground{fill:#ffffff}.box{fill:#f6f8fa;stroke:#8c959f;stroke-width:1}
.id{font-size:13px;font-weight:600}.type,.small{fill:#57606a;font-size:11px}.head{font-size:16px;font-weight:600}
.edge{fill:none;stroke:#8c959f;stroke-width:1.3}.tip{fill:#8c959f}.error{fill:#b3131f}.time{text-anchor:end}
""".strip()
_DARK: Final = """
text{fill:#e6edf3}.ground{fill:#0d1117}.box{fill:#161b22;stroke:#6e7681}.type,.small{fill:#9aa4b2}
.edge{stroke:#6e7681}.tip{fill:#6e7681}.error{fill:#ff8e87}
""".strip()


def draw(run: RunView) -> str:
    """The picture as an SVG document."""
    layout = lay_out(run.nodes)
    error = error_line(run)
    head = MARGIN + HEADER + (LINE if error else 0.0)
    top = head + LEGEND
    width = max(layout.width + 2 * MARGIN, LEAST_WIDTH)
    height = top + layout.height + MARGIN
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(width)}" height="{_n(height)}" '
            f'viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-labelledby="title about">',
            f'<title id="title">{_text(headline(run))}</title>',
            f'<desc id="about">{_text(_about(run))}</desc>',
            f"<style>{_STYLE}{_colours(0)}@media (prefers-color-scheme:dark){{{_DARK}{_colours(1)}}}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<rect class="ground" width="{_n(width)}" height="{_n(height)}"/>',
            *_header(run, error, width),
            *_legend(run, layout, head),
            *_drawing(run, layout, top),
            "</svg>\n",
        ]
    )


def _colours(ground: int) -> str:
    return "".join(
        f".{state} .bar,.{state} .mark{{fill:{colours[ground]}}}.{state} .word{{fill:{colours[ground]}}}"
        for state, colours in COLOURS.items()
    )


def _about(run: RunView) -> str:
    counts = count_of(run)
    states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    failed = [node.id for node in run.nodes if node.state == "failed"]
    sentences = [f"Run {run.id}: {states or 'no nodes yet'}."]
    if failed:
        sentences.append(f"Failed: {', '.join(failed[:20])}.")
    if run.error is not None:
        sentences.append(f"Error: {error_line(run)}")
    return " ".join(sentences)


def _header(run: RunView, error: str, width: float) -> Iterator[str]:
    room = width - 2 * MARGIN
    yield _line("head", MARGIN, MARGIN + 16, cut(headline(run), int(room / HEADLINE_PLACE)))
    yield _line("small", MARGIN, MARGIN + 38, cut(f"run {run.id}", int(room / TEXT_PLACE)))
    if error:
        yield _line("error", MARGIN, MARGIN + 60, cut(error, int(room / TEXT_PLACE)), full=error)


def _drawing(run: RunView, layout: Layout, top: float) -> Iterator[str]:
    yield f'<g transform="translate({_n(MARGIN)} {_n(top)})">'
    yield from map(_edge, layout.edges[:MAX_EDGES])
    for box in layout.boxes:
        yield _box(box, run.now_ms)
    yield "</g>"


def _edge(edge: Edge) -> str:
    path = f"M{_point(edge.points[0])}" + "".join(_piece(one, other) for one, other in pairwise(edge.points))
    return f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'


def _piece(one: Point, other: Point) -> str:
    """A lane past a level is straight; between levels an edge leaves and arrives level."""
    if one[1] == other[1]:
        return f"H{_n(other[0])}"
    bend = (one[0] + other[0]) / 2
    return f"C{_n(bend)} {_n(one[1])} {_n(bend)} {_n(other[1])} {_point(other)}"


def _box(box: Placed, now_ms: int) -> str:
    node = box.node
    took = node_time(node, now_ms)
    told = [f"{node.id}: {node.node}, {node.state}", *([took] if took else [])]
    if node.dependencies:
        told.append(f"after {', '.join(node.dependencies[:20])}")
    if node.attempt is not None and node.attempt > 1:
        told.append(f"attempt {node.attempt}")
    again = f" · {node.attempt}×" if node.attempt is not None and node.attempt > 1 else ""
    return "".join(
        [
            f'<g class="{node.state}" transform="translate({_n(box.x)} {_n(box.y)})">',
            f"<title>{_text('; '.join(told))}</title>",
            f'<rect class="box" width="{_n(BOX_WIDTH)}" height="{_n(BOX_HEIGHT)}" rx="6"/>',
            f'<rect class="bar" width="5" height="{_n(BOX_HEIGHT)}" rx="2"/>',
            _line("id", 14, 21, cut(node.id, ID_PLACES)),
            _line("type", 14, 37, cut(node.node, TYPE_PLACES)),
            _line("word", 14, 54, f"{SIGNS[node.state]} {node.state}{again}"),
            _line("time", BOX_WIDTH - 10, 54, took) if took else "",
            "</g>",
        ]
    )


def _legend(run: RunView, layout: Layout, top: float) -> Iterator[str]:
    counts = count_of(run)
    for at, state in enumerate(STATES):
        x = MARGIN + at * LEGEND_ITEM
        yield f'<g class="{state}" transform="translate({_n(x)} {_n(top)})">'
        yield '<rect class="mark" width="12" height="12" rx="3"/>'
        yield _line("word", 18, 10.5, f"{SIGNS[state]} {state} {counts[state]}") + "</g>"
    if len(layout.edges) > MAX_EDGES:
        left_out = f"{MAX_EDGES} of {len(layout.edges)} dependencies are drawn"
        yield _line("small", MARGIN + len(STATES) * LEGEND_ITEM, top + 10.5, left_out)


def _line(kind: str, x: float, y: float, shown: str, *, full: str = "") -> str:
    title = f"<title>{_text(full)}</title>" if full and full != shown else ""
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{title}{_text(shown)}</text>'


def _point(point: Sequence[float]) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _text(value: str) -> str:
    """Text for XML, in which some characters have no place."""
    return escape(NOT_XML.sub("\ufffd", value))
