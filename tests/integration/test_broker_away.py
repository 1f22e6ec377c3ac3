"""A worker that cannot ask its broker whether a call goes on: a typed error, which names no address."""

from contextlib import closing

import pytest
from support.servers import free_port
from support.workers import client_app

from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.errors import StateBackendError


def test_a_broker_that_is_away_is_named_by_the_kind_of_its_error(server: EmbeddedServer) -> None:
    """The driver's own text says where the broker is, and could say more."""
    port = free_port()
    gone = {"DITTO_BROKER_URL": f"redis://:canary@127.0.0.1:{port}/0"}
    with closing(client_app(server, **gone)) as app:
        result = app.tasks["CONTEXT.LOAD"].apply(kwargs={"sources": []})
        with pytest.raises(StateBackendError) as caught:
            result.get()
    assert caught.value.code == "STATE_BACKEND_UNAVAILABLE"
    assert "Error" in caught.value.message
    for told in (str(port), "127.0.0.1", "canary"):
        assert told not in str(caught.value) + str(result.traceback)
