"""Errors on their way through the JSON result backend."""

import pickle

import pytest
from celery.backends.base import Backend

from ditto_tasks import errors
from ditto_tasks.celery import create_app
from ditto_tasks.errors import DittoError
from ditto_tasks.settings import default_settings


def _tree(base: type[DittoError]) -> list[type[DittoError]]:
    return [base, *(cls for sub in base.__subclasses__() for cls in _tree(sub))]


CLASSES = [cls for cls in _tree(DittoError) if cls.__module__ == errors.__name__]


@pytest.fixture(scope="module")
def backend() -> Backend:
    return Backend(create_app(default_settings()))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("details", [None, {"current_version": "v", "path": "/a/\ud800"}])
def test_every_error_comes_back_typed(
    backend: Backend, cls: type[DittoError], details: dict[str, object] | None
) -> None:
    """Class, code, message and details survive result backend and pickle."""
    error = cls("SOME_CODE", "a message", details)
    stored = backend.decode(backend.encode(backend.prepare_exception(error)))
    for back in (backend.exception_to_python(stored), pickle.loads(pickle.dumps(error))):  # noqa: S301 -- our own
        assert type(back) is cls
        assert (back.code, back.message, back.details) == ("SOME_CODE", "a message", details)
        assert back.args == error.args
