"""Celery's heartbeats while the broker is away: the loop that sends them has more to do."""

import threading
from pathlib import Path

from support.polling import eventually
from support.workers import client_app

from ditto_tasks.embedded import EmbeddedServer


def test_a_heartbeat_that_cannot_be_sent_is_tried_once_and_kept(tmp_path: Path) -> None:
    """Celery asks for tries without end; the event goes out with those of the next connection."""
    with EmbeddedServer(tmp_path) as server:
        app = client_app(server)
        with app.connection_for_write() as connection:
            dispatcher = app.events.Dispatcher(connection, hostname="w@h", channel=connection.channel())
            server.kill()
            sending = threading.Thread(
                target=dispatcher.send, args=("worker-heartbeat",), kwargs={"retry": True}, daemon=True
            )
            sending.start()
            eventually(lambda: not sending.is_alive(), 20)
            assert [event["type"] for event, _ in dispatcher._outbound_buffer] == ["worker-heartbeat"]
            server.start()
            dispatcher.flush()
            assert not dispatcher._outbound_buffer
        app.close()
