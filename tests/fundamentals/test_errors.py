"""The error tree: one constructor, codes that survive pickle and Celery's JSON results."""

from __future__ import annotations

import json
import pickle

import pytest
from support.source import sources

from ditto_tasks import errors
from ditto_tasks.errors import ContextError, DittoError

TREE = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, DittoError)]


@pytest.mark.parametrize("error", TREE)
def test_error_round_trips(error: type[DittoError]) -> None:
    """Pickle, and the constructor called with args that went through JSON, give the same error back."""
    raised = error("CODE", "what happened", {"path": "/a"})
    for copy in (pickle.loads(pickle.dumps(raised)), error(*json.loads(json.dumps(raised.args)))):  # noqa: S301 - made here
        assert type(copy) is error
        assert (copy.code, copy.message, copy.details) == ("CODE", "what happened", {"path": "/a"})
        assert copy.args == raised.args
        assert str(copy) == "CODE: what happened"


@pytest.mark.parametrize("error", TREE)
def test_every_error_is_in_the_drawing(error: type[DittoError]) -> None:
    """The tree in the module's docstring names every class."""
    assert error.__name__ in (errors.__doc__ or "")


def test_details_are_optional() -> None:
    """An error without details has None for them."""
    assert ContextError("CODE", "text").args == ("CODE", "text", None)


def test_invalid_input_names_the_path() -> None:
    """INVALID_INPUT carries the path as text and as a detail."""
    error = ContextError.invalid_input("/add/0/id", "must be a nonempty string")
    assert (error.code, error.details) == ("INVALID_INPUT", {"path": "/add/0/id"})
    assert "/add/0/id" in str(error)


def test_two_errors_have_a_default_reason() -> None:
    """Cancelled and OutcomeUnknown can be raised without arguments."""
    assert errors.Cancelled().code == "CANCELLED"
    assert errors.OutcomeUnknown().code == "STATE_OUTCOME_UNKNOWN"
    assert "safe" in errors.OutcomeUnknown().message


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("CANCELLED", "cancelled"),
        ("TIMEOUT", "timeout"),
        ("RETRIEVAL_TIMEOUT", "timeout"),
        ("OTHER", "failed"),
    ],
)
def test_an_errors_code_says_how_work_ended(code: str, ending: str) -> None:
    """Every domain asks the same table: it stands in no other file."""
    assert errors.ending_of(code) == ending
    holders = [file.name for file in sources("ditto_tasks") if '"TIMEOUT": "timeout"' in file.text]
    assert holders == ["ditto_tasks/errors.py"]
