"""Views of runs for tests of what shows them."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from ditto_tasks.pipelines.run_views import NodeState, NodeView, RunView
from ditto_tasks.pipelines.run_words import STATES

OPENED_MS = 1_700_000_000_000


def node_view(
    name: str, after: Sequence[str] = (), state: NodeState = "done", *, began: int = 0, took: int = 100
) -> NodeView:
    """A node whose times are ms since the run was opened."""
    started = None if state in ("waiting", "sent", "skipped") else OPENED_MS + began
    ended = OPENED_MS + began + took if state in ("done", "failed") else None
    return NodeView(
        id=name,
        node="MEMORY.SEARCH",
        dependencies=tuple(after),
        state=state,
        started_ms=started,
        ended_ms=ended,
    )


def run_view(nodes: Iterable[NodeView], **more: object) -> RunView:
    """A run of a graph, opened ten seconds ago."""
    about = {"id": "run-1", "kind": "graph", "name": "g", "state": "running"}
    times = {"opened_ms": OPENED_MS, "deadline_ms": OPENED_MS + 60_000, "now_ms": OPENED_MS + 10_000}
    return RunView.model_validate({**about, **times, "nodes": tuple(nodes), **more})


@st.composite
def graphs(draw: st.DrawFn, most: int = 40) -> list[NodeView]:
    """Random acyclic graphs in random states."""
    nodes: list[NodeView] = []
    for at in range(draw(st.integers(1, most))):
        earlier = [node.id for node in nodes]
        after = draw(st.lists(st.sampled_from(earlier), unique=True, max_size=4)) if earlier else []
        nodes.append(node_view(f"n{at}", after, draw(st.sampled_from(STATES))))
    return nodes
