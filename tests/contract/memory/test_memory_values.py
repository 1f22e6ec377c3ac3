"""JSON comes back equal from every store, whatever it holds."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memories import contents, output, remember

from ditto_tasks.json_values import JsonValue
from ditto_tasks.memory import MemoryNodes

DEEP: list[object] = []
for _ in range(198):
    DEEP = [DEEP]
VALUES = [
    None,
    True,
    0,
    -0.0,
    1.5,
    5e-324,
    2**53 + 1,
    2**70,
    -(10**300),
    "",
    "null",
    '"quoted"',
    "back\\slash \\u0000",
    "nul \0 in text",
    "lone \ud800 and \udfff",
    "pair \U0001f600",
    "line\nfeed\ttab",
    {},
    [],
    {"": {"\0": "\ud800"}},
    {"a": [1, {"b": [None, True, "x"]}], "ä": "ö"},
    DEEP,
    "x" * 1_000_000,
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:20])
def test_content_and_metadata_come_back_equal(nodes: MemoryNodes, value: JsonValue) -> None:
    """Any JSON content, and metadata that holds it, is read as it was written, down to its types."""
    (record_id,) = remember(nodes, value, metadata={"value": value} if value is not DEEP else {})
    (item,) = output(nodes.get({"ids": [record_id]}))
    assert repr(item["content"]) == repr(value)
    assert repr(item["metadata"]) == repr({"value": value} if value is not DEEP else {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=JSON, metadata=st.dictionaries(st.text(), JSON, max_size=3))
def test_any_json_comes_back_equal(
    nodes: MemoryNodes, content: JsonValue, metadata: dict[str, JsonValue]
) -> None:
    """Whatever JSON is written comes back equal."""
    (record_id,) = remember(nodes, content, metadata=metadata)
    (item,) = output(nodes.get({"ids": [record_id]}))
    assert repr(item["content"]) == repr(content)
    assert repr(item["metadata"]) == repr(metadata)


def test_large_numbers_keep_their_digits_in_queries(nodes: MemoryNodes) -> None:
    """A page of QUERY holds the same values as GET."""
    remember(nodes, 2**70 + 1, 10**25)
    assert contents(nodes.query({})) == [2**70 + 1, 10**25]
