"""What starts a run is checked, and what is wrong is named by its path."""

import pytest
from support.graphs import constant

from ditto_tasks.client.graphs import ScopeLike, run_call
from ditto_tasks.errors import PipelineError
from ditto_tasks.pipelines.graphs import Graph

GRAPH = Graph("one", [constant("a")])


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        ("acme", "/scope"),
        (3, "/scope"),
        (object(), "/scope"),
        ({"sessionId": 3}, "/scope/sessionId"),
        ({}, "/scope"),
    ],
)
def test_a_wrong_scope_is_named(scope: ScopeLike, path: str) -> None:
    """It is not the input that is wrong."""
    with pytest.raises(PipelineError) as caught:
        run_call(GRAPH, {}, {"scope": scope})
    assert caught.value.code == "INVALID_INPUT"
    assert caught.value.message.startswith(f"{path}")
    assert "input" not in caught.value.message
