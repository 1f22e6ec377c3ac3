"""One HTTP request of this package's own: over TLS, through proxies, and cut before it was connected."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest
from support.polling import eventually
from support.provider_server import ProviderServer, as_json, hang
from support.proxies import TlsProxy
from support.servers import make_certificate

from ditto_tasks.http_exchange import Answer, ExchangeError, exchange

MAX_BYTES = 1_000
ENOUGH_S = 20.0
WORDS = Answer(200, b'{"words": 1}')


class SlowTls(TlsProxy):
    """Answers a handshake only once it is told to."""

    def __init__(self, service: ProviderServer, folder: Path) -> None:
        certificate, key = make_certificate(folder)
        port = int(service.url.rpartition(":")[2])
        super().__init__(
            lambda: socket.create_connection(("127.0.0.1", port)), certificate=certificate, key=key
        )
        self.certificate = certificate
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def accepted(self, client: socket.socket) -> socket.socket:
        self.waits.set()
        self.go_on.wait(ENOUGH_S)
        return super().accepted(client)


@pytest.fixture
def service() -> Iterator[ProviderServer]:
    with ProviderServer(as_json({"words": 1})) as running:
        yield running


@pytest.fixture
def tls(service: ProviderServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowTls]:
    """TLS in front of the service, with a certificate that this process trusts."""
    with SlowTls(service, tmp_path) as proxy:
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
        yield proxy
        proxy.go_on.set()


def ask(url: str, *, proxies: bool = False, left_s: float = ENOUGH_S) -> Answer:
    return exchange(Request(url), max_bytes=MAX_BYTES, left_s=lambda: left_s, proxies=proxies)  # noqa: S310 -- http(s)


def nobody_asks() -> bool:
    return "ditto-http" not in {thread.name for thread in threading.enumerate()}


def test_a_trusted_service_is_asked_over_tls(tls: SlowTls) -> None:
    """The answer is the service's."""
    tls.go_on.set()
    assert ask(f"https://127.0.0.1:{tls.port}/") == WORDS


def test_an_untrusted_service_is_not_asked(
    tls: SlowTls, service: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a certificate that nobody vouches for there is no answer, and no request that could be read."""
    monkeypatch.delenv("SSL_CERT_FILE")
    tls.go_on.set()
    with pytest.raises(ExchangeError) as caught:
        ask(f"https://127.0.0.1:{tls.port}/")
    assert str(caught.value) == ""
    assert service.requests == []


def test_a_handshake_that_does_not_end_is_a_timeout(tls: SlowTls) -> None:
    """Whether the waiting thread or the socket notices first."""
    with pytest.raises(TimeoutError):
        ask(f"https://127.0.0.1:{tls.port}/", left_s=0.2)


def test_a_request_that_was_cut_while_it_connected_is_never_sent(
    tls: SlowTls, service: ProviderServer
) -> None:
    """Its caller was told that it ended: the service must not see it afterwards."""

    def left_s() -> float:
        if tls.waits.is_set():
            raise InterruptedError
        return ENOUGH_S

    with pytest.raises(InterruptedError):
        exchange(Request(f"https://127.0.0.1:{tls.port}/"), max_bytes=MAX_BYTES, left_s=left_s, proxies=False)
    tls.go_on.set()
    eventually(nobody_asks, ENOUGH_S)
    assert service.requests == []


def test_a_cut_closes_the_connection_under_tls(tls: SlowTls, service: ProviderServer) -> None:
    """The service does not work on for somebody who left."""
    service.then(hang(b"{"))
    tls.go_on.set()

    def left_s() -> float:
        if service.requests:
            raise InterruptedError
        return ENOUGH_S

    with pytest.raises(InterruptedError):
        exchange(Request(f"https://127.0.0.1:{tls.port}/"), max_bytes=MAX_BYTES, left_s=left_s, proxies=False)
    assert service.client_closed.wait(ENOUGH_S)


@pytest.mark.parametrize("proxies", [True, False])
def test_proxies_of_the_environment_are_a_choice(
    service: ProviderServer, monkeypatch: pytest.MonkeyPatch, proxies: bool
) -> None:
    """A key goes through a proxy only where the caller allows that."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ProviderServer(as_json({"words": 1})) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert ask(f"{service.url}/path", proxies=proxies) == WORDS
    asked, spared = (proxy, service) if proxies else (service, proxy)
    assert (len(asked.requests), len(spared.requests)) == (1, 0)
