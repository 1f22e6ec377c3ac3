"""The options of a call, and the reprs of its result."""

import pytest

from ditto_tasks.errors import ContextError, NodeInputError, raised
from ditto_tasks.nodes import NODES
from ditto_tasks.task import NO_OPTIONS, TaskOptions, parse_options

LOAD, UPDATE, SEARCH = NODES["CONTEXT.LOAD"], NODES["CONTEXT.UPDATE"], NODES["MEMORY.SEARCH"]


def test_defaults_are_those_of_the_specification() -> None:
    """Nothing given: fail on a missing state, read anywhere, no deadline."""
    assert TaskOptions() == NO_OPTIONS
    assert (NO_OPTIONS.consistency, NO_OPTIONS.on_missing, NO_OPTIONS.if_absent) == ("any", "fail", False)


def test_options_are_read_from_the_wire() -> None:
    """camelCase keys, each checked."""
    options = parse_options(LOAD, {"operationId": "o", "reply": "none", "ifAbsent": True, "deadlineMs": 5})
    assert (options.operation_id, options.reply, options.if_absent, options.deadline_ms) == (
        "o",
        "none",
        True,
        5,
    )


@pytest.mark.parametrize(
    "value", [None, [], "x", {"reply": "x"}, {"deadlineMs": -1}, {"operation_id": "x"}, {"x": 1}]
)
@pytest.mark.parametrize(("row", "error"), [(LOAD, ContextError), (SEARCH, NodeInputError)])
def test_bad_options_are_invalid_input_in_every_domain(
    row: object, error: type[Exception], value: object
) -> None:
    """The error is the domain's, and names no value."""
    with pytest.raises(error, match="INVALID_INPUT"):
        parse_options(row, value)  # type: ignore[arg-type]  # a row


@pytest.mark.parametrize(
    ("row", "option"),
    [(UPDATE, {"ifAbsent": True}), (LOAD, {"onMissing": "create"}), (SEARCH, {"reply": "none"})],
)
def test_an_option_of_another_node_is_unknown(row: object, option: dict[str, object]) -> None:
    """It would be ignored otherwise, which its sender would not notice."""
    with pytest.raises((ContextError, NodeInputError)):
        parse_options(row, option)  # type: ignore[arg-type]  # a row


def test_a_raw_error_is_named_by_class_and_place() -> None:
    """Its text is not part of what a log may say."""
    with pytest.raises(ValueError, match="secret") as caught:
        raise ValueError("secret")
    assert raised(caught.value).startswith("ValueError in test_a_raw_error_is_named_by_class_and_place:")
    assert "secret" not in raised(caught.value)
