"""Proxies on loopback that do to a connection what networks do: encrypt it, cut it, keep its bytes."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

Connect = Callable[[], socket.socket]


def to_socket(path: Path) -> Connect:
    """Connects to a server's unix socket."""

    def connect() -> socket.socket:
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.connect(str(path))
        except OSError:
            upstream.close()
            raise
        return upstream

    return connect


class Proxy:
    """Forwards every connection to a server; subclasses say what else happens to the bytes."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def cut_all(self) -> None:
        """Drop every open connection."""
        with self._lock:
            connections, self._open = self._open, []
        for connection in connections:
            _drop(connection)

    def accepted(self, client: socket.socket) -> socket.socket:
        """The client's side of a new connection."""
        return client

    def forward(self, data: bytes) -> bytes | None:
        """What of a request goes on to the server; None cuts the connection."""
        return data

    def answer(self, data: bytes) -> bytes | None:
        """What of a reply goes back to the client; None cuts the connection."""
        return data

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        try:
            client, server = self.accepted(raw), self._connect()
        except OSError:  # no TLS from this client, or no server
            return _drop(raw)
        with self._lock:
            self._open += [client, server]
        threading.Thread(target=_pump, args=(server, client, self.answer), daemon=True).start()
        return _pump(client, server, self.forward)


class TlsProxy(Proxy):
    """Ends TLS in front of a server whose build has none, as a TLS sidecar does."""

    def __init__(self, connect: Connect, *, certificate: Path, key: Path) -> None:
        super().__init__(connect)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)

    def accepted(self, client: socket.socket) -> socket.socket:
        return self._context.wrap_socket(client, server_side=True)


class ReplyCutter(Proxy):
    """Cuts only the reply: the request that holds `marker` reaches the server, its answer nobody.

    `then` is called between the two, for what happens meanwhile (the server dies, say). With
    `withhold` the request itself stays in the proxy until `release`, as in a full network buffer.
    """

    def __init__(self, connect: Connect, *, then: Callable[[], None] = lambda: None) -> None:
        super().__init__(connect)
        self._then = then
        self._marker: bytes | None = None
        self._withhold = False
        self._cutting = False
        self._withheld: list[bytes] = []
        self.cuts = 0

    def cut_reply_to(self, marker: bytes, *, withhold: bool = False) -> None:
        """Arm for the next request that holds `marker`."""
        self._marker, self._withhold = marker, withhold

    def release(self, *, database: int) -> bytes:
        """Let the server have the withheld requests now; its reply."""
        with self._connect() as server:
            server.settimeout(5)
            server.sendall(f"SELECT {database}\r\n".encode())
            assert server.recv(16) == b"+OK\r\n"
            server.sendall(b"".join(self._withheld))
            return server.recv(65536)

    def forward(self, data: bytes) -> bytes | None:
        if self._marker is None or self._marker not in data:
            return data
        self._marker, self.cuts = None, self.cuts + 1
        if self._withhold:
            self._withheld.append(data)
            return None
        self._cutting = True
        return data

    def answer(self, data: bytes) -> bytes | None:
        if not self._cutting:
            return data
        self._cutting = False
        self._then()
        return None


def _pump(source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes | None]) -> None:
    with suppress(OSError):  # either side may go at any time
        while data := source.recv(65536):
            changed = change(data)
            if changed is None:
                break
            target.sendall(changed)
    _drop(source)
    _drop(target)


def _drop(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
