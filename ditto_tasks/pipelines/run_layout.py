"""Where the nodes of a run stand in a picture: columns by level, rows so that few edges cross. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ditto_tasks.pipelines.run_views import NodeView

BOX_WIDTH: Final = 208.0
BOX_HEIGHT: Final = 62.0
COLUMN_GAP: Final = 72.0
ROW_GAP: Final = 18.0
WRAPPED_GAP: Final = 16.0  # between the parts of a level that was broken
LANE: Final = 14.0  # height of the way that an edge takes past a level
MAX_ROWS: Final = 32  # of a column; a longer level is broken into several
MAX_LANES: Final = 600  # more long edges than this go behind the boxes
SWEEPS: Final = 4  # over the levels, there and back

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and the upper left corner of its box."""

    node: NodeView
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one box to another, by the points at which it enters and leaves the columns between."""

    before: str
    after: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture's boxes and edges, and its size."""

    boxes: tuple[Placed, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


@dataclass(slots=True, eq=False)
class _Slot:
    """A place in a column: a node's box, or the lane of an edge that passes."""

    level: int
    height: float
    node: NodeView | None = None
    before: list[_Slot] = field(default_factory=list)
    after: list[_Slot] = field(default_factory=list)
    y: float = 0.0  # of its middle
    x: float = 0.0


def levels_of(nodes: Sequence[NodeView]) -> list[list[NodeView]]:
    """Nodes by the longest way to them; a dependency that does not stand before its node does not count."""
    depth: dict[str, int] = {}
    levels: dict[int, list[NodeView]] = defaultdict(list)
    for node in nodes:
        level = max((depth[before] + 1 for before in node.dependencies if before in depth), default=0)
        depth[node.id] = level
        levels[level].append(node)
    return [levels[level] for level in range(len(levels))]


def lay_out(nodes: Sequence[NodeView]) -> Layout:
    """Boxes that do not overlap, and edges that pass between them while there are not too many."""
    levels = levels_of(nodes)
    if not levels:
        return Layout((), (), 0.0, 0.0)
    if max(map(len, levels)) > MAX_ROWS or _lanes_needed(levels) > MAX_LANES:
        return _grid(levels)
    slots = {node.id: _Slot(at, BOX_HEIGHT, node) for at, level in enumerate(levels) for node in level}
    columns = [[slots[node.id] for node in level] for level in levels]
    chains = _connect(nodes, slots, columns)
    for _ in range(SWEEPS):
        _order(columns)
    _align(columns)
    return _picture(columns, chains)


def _lanes_needed(levels: Sequence[Sequence[NodeView]]) -> int:
    depth = {node.id: at for at, level in enumerate(levels) for node in level}
    spans = (
        depth[node.id] - depth[before] - 1
        for level in levels
        for node in level
        for before in node.dependencies
        if before in depth and depth[before] < depth[node.id]
    )
    return sum(spans)


def _connect(
    nodes: Sequence[NodeView], slots: Mapping[str, _Slot], columns: list[list[_Slot]]
) -> list[tuple[NodeView, NodeView, list[_Slot]]]:
    """Link slots over their edges, with a lane in each column between; each edge with its slots."""
    chains = []
    for node in nodes:
        end = slots[node.id]
        for before in node.dependencies:
            start = slots.get(before)
            if start is None or start.node is None or start.level >= end.level:
                continue
            lanes = [_Slot(level, LANE) for level in range(start.level + 1, end.level)]
            for lane in lanes:
                columns[lane.level].append(lane)
            chain = [start, *lanes, end]
            for one, other in pairwise(chain):
                one.after.append(other)
                other.before.append(one)
            chains.append((start.node, node, chain))
    return chains


def _order(columns: list[list[_Slot]]) -> None:
    """Sort each column by where its neighbours stand, to the right and then to the left."""
    for column in columns:
        _sort(column, [slot.before for slot in column])
    for column in reversed(columns):
        _sort(column, [slot.after for slot in column])


def _sort(column: list[_Slot], neighbours: list[list[_Slot]]) -> None:
    own = {id(slot): at / max(len(column) - 1, 1) for at, slot in enumerate(column)}
    wished = {
        id(slot): sum(near.y for near in nears) / len(nears) if nears else own[id(slot)]
        for slot, nears in zip(column, neighbours, strict=True)
    }
    column.sort(key=lambda slot: wished[id(slot)])
    for at, slot in enumerate(column):  # while rows are being ordered y is the share of the column above
        slot.y = at / max(len(column) - 1, 1)


def _align(columns: list[list[_Slot]]) -> None:
    """Give each slot its height in the picture: near its neighbours, and none over another."""
    for column in columns:
        _spread(column, [0.0] * len(column))
    for at in [*range(len(columns)), *reversed(range(len(columns))), *range(len(columns))]:
        column = columns[at]
        wished = [_middle([*slot.before, *slot.after], slot.y) for slot in column]
        _spread(column, wished)


def _middle(neighbours: Sequence[_Slot], otherwise: float) -> float:
    return sum(near.y for near in neighbours) / len(neighbours) if neighbours else otherwise


def _spread(column: list[_Slot], wished: Sequence[float]) -> None:
    """The places nearest to those wished for that keep the order and the gaps: pool adjacent violators."""
    offsets, reach = [], 0.0
    for at, slot in enumerate(column):
        reach += (column[at - 1].height + slot.height) / 2 + ROW_GAP if at else 0.0
        offsets.append(reach)
    pools: list[tuple[float, int]] = []  # mean of what is wished, number of slots
    for wish, offset in zip(wished, offsets, strict=True):
        mean, count = wish - offset, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    places = [mean for mean, count in pools for _ in range(count)]
    for slot, place, offset in zip(column, places, offsets, strict=True):
        slot.y = place + offset


def _picture(columns: list[list[_Slot]], chains: Sequence[tuple[NodeView, NodeView, list[_Slot]]]) -> Layout:
    slots = [slot for column in columns for slot in column]
    top = min(slot.y - slot.height / 2 for slot in slots)
    for slot in slots:
        slot.y -= top
        slot.x = slot.level * (BOX_WIDTH + COLUMN_GAP)
    boxes = [Placed(slot.node, slot.x, slot.y - BOX_HEIGHT / 2) for slot in slots if slot.node is not None]
    edges = [Edge(before.id, after.id, _points(chain)) for before, after, chain in chains]
    height = max(slot.y + slot.height / 2 for slot in slots)
    return Layout(tuple(boxes), tuple(edges), _width(len(columns)), height)


def _points(chain: Sequence[_Slot]) -> tuple[Point, ...]:
    """Out of the first box, through each lane from one side to the other, into the last box."""
    first, *lanes, last = chain
    points = [(first.x + BOX_WIDTH, first.y)]
    for lane in lanes:
        points += [(lane.x, lane.y), (lane.x + BOX_WIDTH, lane.y)]
    return (*points, (last.x, last.y))


def _width(columns: int) -> float:
    return columns * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP


def _grid(levels: Sequence[Sequence[NodeView]]) -> Layout:
    """Levels in blocks of even columns: many nodes stay findable, and edges go behind them."""
    boxes: list[Placed] = []
    x = 0.0
    for level in levels:
        parts = -(-len(level) // MAX_ROWS)
        rows = -(-len(level) // parts)
        for at, node in enumerate(level):
            part, row = divmod(at, rows)
            boxes.append(Placed(node, x + part * (BOX_WIDTH + WRAPPED_GAP), row * (BOX_HEIGHT + ROW_GAP)))
        x += parts * (BOX_WIDTH + WRAPPED_GAP) - WRAPPED_GAP + COLUMN_GAP
    placed = {box.node.id: box for box in boxes}
    edges = [
        Edge(before, box.node.id, _straight(placed[before], box))
        for box in boxes
        for before in box.node.dependencies
        if before in placed and placed[before].x < box.x
    ]
    height = max(box.y for box in boxes) + BOX_HEIGHT
    return Layout(tuple(boxes), tuple(edges), x - COLUMN_GAP, height)


def _straight(before: Placed, after: Placed) -> tuple[Point, ...]:
    middle = BOX_HEIGHT / 2
    return (before.x + BOX_WIDTH, before.y + middle), (after.x, after.y + middle)
