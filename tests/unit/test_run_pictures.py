"""Pictures of runs: nothing lies over anything else, all is said in words too, and any text is harmless."""

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.views import graphs, node_view, run_view

from ditto_tasks.pipelines.run_layout import BOX_HEIGHT, BOX_WIDTH, Layout, lay_out, levels_of
from ditto_tasks.pipelines.run_svg import MAX_EDGES, draw
from ditto_tasks.pipelines.run_views import NodeView, RunError
from ditto_tasks.pipelines.run_words import STATES, cut, elapsed, width_of

SVG = "{http://www.w3.org/2000/svg}"
DIAMOND = [node_view("a"), node_view("b", ["a"]), node_view("c", ["a"]), node_view("d", ["b", "c"])]


def overlapping(layout: Layout) -> list[tuple[str, str]]:
    """The pairs of boxes that lie over one another."""
    return [
        (one.node.id, other.node.id)
        for one, other in combinations(layout.boxes, 2)
        if abs(one.x - other.x) < BOX_WIDTH and abs(one.y - other.y) < BOX_HEIGHT
    ]


def crossed(layout: Layout) -> list[tuple[str, str]]:
    """Edges whose level pieces, which pass a column, go through a box of it."""
    return [
        (edge.before, box.node.id)
        for edge in layout.edges
        for one, other in pairwise(edge.points)
        if one[1] == other[1] and other[0] - one[0] == BOX_WIDTH
        for box in layout.boxes
        if box.x == one[0] and box.y < one[1] < box.y + BOX_HEIGHT
    ]


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_nothing_lies_over_anything(nodes: list[NodeView]) -> None:
    """No two boxes overlap, and no edge that passes a level goes through one of its boxes."""
    layout = lay_out(nodes)
    assert (overlapping(layout), crossed(layout)) == ([], [])
    assert len(layout.boxes) == len(nodes)
    assert max(box.x + BOX_WIDTH for box in layout.boxes) <= layout.width
    assert max(box.y + BOX_HEIGHT for box in layout.boxes) <= layout.height


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_edges_lead_from_left_to_right(nodes: list[NodeView]) -> None:
    """Each dependency is an edge, and each edge goes to the right all the way."""
    edges = lay_out(nodes).edges
    assert {(edge.before, edge.after) for edge in edges} == {
        (before, node.id) for node in nodes for before in node.dependencies
    }
    assert all(one[0] < other[0] for edge in edges for one, other in pairwise(edge.points))


def test_a_thousand_nodes_stay_apart() -> None:
    """Long levels are broken into columns of few rows."""
    nodes = [node_view(f"n{at}", [f"n{at - 50}"] if at >= 50 else []) for at in range(1_000)]
    layout = lay_out(nodes)
    assert len(levels_of(nodes)) == 20
    assert overlapping(layout) == []
    assert layout.height < 40 * (BOX_HEIGHT + 20)


def test_a_picture_says_all_in_words() -> None:
    """Title, description, and each node's id, type, state and time are text."""
    nodes = [*DIAMOND[:3], node_view("d", ["b", "c"], "failed", took=1_234)]
    error = RunError(code="NO_LUCK", message="it did not work", node="d")
    root = ET.fromstring(draw(run_view(nodes, state="failed", error=error)))  # noqa: S314 -- our own
    said = " ".join(root.itertext())
    assert root.findtext(f"{SVG}title", "").startswith("graph g · failed · 4 of 4 nodes")
    assert "Failed: d." in root.findtext(f"{SVG}desc", "")
    for part in ("NO_LUCK (node d): it did not work", "MEMORY.SEARCH", "✗ failed", "1.2 s", "✓ done 3"):
        assert part in said


def test_a_picture_is_for_light_and_dark() -> None:
    """Every state has a colour on both grounds with a contrast of 4.5 at least."""
    drawn = draw(run_view(DIAMOND))
    light, _, dark = drawn.partition("@media (prefers-color-scheme:dark)")
    for state in STATES:
        for part, ground in ((light, "#f6f8fa"), (dark, "#161b22")):
            colour = part.split(f".{state} .word{{fill:")[1][:7]
            assert contrast(colour, ground) >= 4.5, (state, colour, ground)


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@given(st.text(st.characters(), min_size=1, max_size=60))
def test_no_text_breaks_a_picture(text: str) -> None:
    """Names and messages of any characters give well-formed XML that holds no element of theirs."""
    nodes = [node_view(text), node_view("b", [text])]
    run = run_view(nodes, name=text, id=text, error=RunError(code="C", message=text))
    root = ET.fromstring(draw(run).encode())  # noqa: S314 -- our own
    kinds = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "style", "defs", "marker", "path", "rect", "g", "text"}


@pytest.mark.parametrize("evil", ["</text><script>x</script>", "\x00\x08\ud800", "]]>", "&lt;", "\u202e"])
def test_markup_and_control_characters_are_text(evil: str) -> None:
    """What would be markup is shown as it is, and what XML has no place for is replaced."""
    drawn = draw(run_view([node_view("a")], name=evil))
    assert "<script" not in drawn
    ET.fromstring(drawn)  # noqa: S314 -- our own


def test_a_blot_of_edges_is_not_drawn() -> None:
    """Of very many edges only the first are drawn, and the picture says so."""
    first = [node_view(f"a{at}") for at in range(80)]
    after = [node_view(f"b{at}", [node.id for node in first]) for at in range(80)]
    drawn = draw(run_view([*first, *after]))
    assert drawn.count('class="edge"') == MAX_EDGES
    assert f"{MAX_EDGES} of 6400 dependencies are drawn" in drawn


def test_a_run_without_nodes_has_a_picture() -> None:
    """A flow that has not begun is a picture with a heading and the legend."""
    assert "0 of 0 nodes" in draw(run_view([], kind="flow", name="react"))


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (9_999, "9.9 s"),
        (10_000, "10 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (185_000, "3 min 5 s"),
        (3_600_000, "1 h"),
        (7_800_000, "2 h 10 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_times_are_short(ms: int, shown: str) -> None:
    """A time has at most two units."""
    assert elapsed(ms) == shown


@given(st.text(max_size=30), st.integers(1, 20))
def test_what_is_cut_fits(text: str, places: int) -> None:
    """A text that was cut takes no more places than there are, wide characters counted twice."""
    assert width_of(cut(text, places)) <= places
