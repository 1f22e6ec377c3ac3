"""One suite for every place that states can be in."""

from collections.abc import Iterator

import pytest
from support.states import SERVERS, Backend, backend


@pytest.fixture(scope="session", params=["memory", *SERVERS])
def state_backend(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """Each kind of backend in turn, started once."""
    with backend(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def states(state_backend: Backend) -> Iterator[Backend]:
    """An empty backend; after the test none of its keys may be without a TTL."""
    state_backend.empty()
    yield state_backend
    assert state_backend.lasting_keys() == []
