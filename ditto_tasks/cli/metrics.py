"""`ditto metrics`: what Prometheus scrapes, on the loopback address and for whoever knows the credential."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

import click

from ditto_tasks.cli.deployment import open_deployment
from ditto_tasks.errors import SettingsError
from ditto_tasks.metrics.exposition import CONTENT_TYPE, exposition
from ditto_tasks.settings import Settings

PORT: Final = 9464
LOOPBACK: Final = "127.0.0.1"
HEALTH_PATH: Final = "/healthcheck"
SLOW_S: Final = 10  # a caller that does not say what it wants holds its thread for so long


@click.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="Another one only behind a proxy with TLS.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="0: a free one."
)
@click.option("--once", is_flag=True, help="Print the metrics and end.")
def metrics(*, host: str, port: int, once: bool) -> None:
    """Serve the deployment's metrics at /metrics.

    Whoever asks sends the credential DITTO_METRICS_BASIC_AUTH.
    """
    with open_deployment() as deployment:

        def read() -> bytes:
            return exposition(deployment.broker, deployment.keys, deployment.shard_count)

        def alive() -> bytes:
            deployment.broker.ping()
            return b"OK"

        if once:
            click.echo(read(), nl=False)
            return
        credential = credential_of(deployment.app.settings)
        with (
            metrics_server(read, credential, alive=alive, host=host, port=port) as server,
            suppress(KeyboardInterrupt),  # the way in which it is ended
        ):
            click.echo(f"http://{host}:{server.server_port}/metrics")
            server.serve_forever()


def credential_of(settings: Settings) -> str:
    """`user:password`; SettingsError without one."""
    credential = settings.connections.metrics_basic_auth
    if credential is None or ":" not in credential.get_secret_value():
        reason = "is not set as user:password; metrics are not served without a credential"
        raise SettingsError("INVALID_SETTINGS", f"DITTO_METRICS_BASIC_AUTH: {reason}")
    return credential.get_secret_value()


def metrics_server(
    read: Callable[[], bytes],
    credential: str,
    *,
    alive: Callable[[], bytes],
    host: str = LOOPBACK,
    port: int = 0,
) -> ThreadingHTTPServer:
    """A server that has not begun to serve. /healthcheck is open, and says no more than `alive`."""
    expected = b"Basic " + b64encode(credential.encode())

    class Handler(BaseHTTPRequestHandler):
        timeout = SLOW_S

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").encode()
            if self.path == HEALTH_PATH:
                self._answer(*_read(alive))
            elif not hmac.compare_digest(given, expected):
                self._answer(401, b"", ("WWW-Authenticate", 'Basic realm="ditto"'))
            elif self.path.partition("?")[0] != "/metrics":
                self._answer(404, b"")
            else:
                self._answer(*_read(read), ("Content-Type", CONTENT_TYPE))

        def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are not worth a line."""

    return ThreadingHTTPServer((host, port), Handler)


def _read(read: Callable[[], bytes]) -> tuple[int, bytes]:
    try:
        return 200, read()
    except Exception as exc:  # noqa: BLE001 -- whatever a client raises, there is nothing to be shown
        return 503, f"{type(exc).__name__}\n".encode()
