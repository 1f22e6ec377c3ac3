"""What a state URL may say, and that a wrong one never shows its password."""

import pytest
from support.states import refused

from ditto_tasks.errors import SettingsError
from ditto_tasks.state.addresses import ServerAddress, parse_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://h", ServerAddress("single", (("h", 6379),))),
        ("redis://", ServerAddress("single", (("localhost", 6379),))),
        ("redis://[::1]:7000/3", ServerAddress("single", (("::1", 7000),), db=3)),
        ("redis://h?db=4", ServerAddress("single", (("h", 6379),), db=4)),
        (
            "rediss://u:p%40ss@h:7000/1?ssl_ca_certs=/ca.pem",
            ServerAddress(
                "single",
                (("h", 7000),),
                tls=True,
                username="u",
                password="p@ss",
                db=1,
                options=(("ssl_ca_certs", "/ca.pem"),),
            ),
        ),
        ("redis://:p@h", ServerAddress("single", (("h", 6379),), password="p")),
        ("unix:///run/s?db=2", ServerAddress("socket", path="/run/s", db=2)),
        ("redis+socket:///run/s?virtual_host=2", ServerAddress("socket", path="/run/s", db=2)),
        (
            "redis+sentinel://u:p@a,b:7000/state/2?sentinel_password=q",
            ServerAddress(
                "sentinel",
                (("a", 26379), ("b", 7000)),
                username="u",
                password="p",
                db=2,
                service="state",
                options=(("sentinel_password", "q"),),
            ),
        ),
        (
            "rediss+cluster://a:7000,[::2]:7001",
            ServerAddress("cluster", (("a", 7000), ("::2", 7001)), tls=True),
        ),
    ],
)
def test_addresses_are_read(url: str, address: ServerAddress) -> None:
    """Each form of URL says what it should."""
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://secret@h",
        "redis://:secret@h:port",
        "redis://:secret@h/db",
        "redis://:secret@a,b",
        "redis://:secret@h?sentinel_password=x",
        "redis://:secret@h?socket_timeout=1",
        "redis+sentinel://:secret@h",
        "redis+cluster://:secret@h/1",
        "amqp://:secret@h",
        "rediss+socket:///s?secret",
    ],
)
def test_wrong_addresses_are_refused_without_being_shown(url: str) -> None:
    """An unusable URL is INVALID_URL, and the error never repeats it."""
    error = refused(lambda: parse_address(url), "INVALID_URL", SettingsError)
    assert "secret" not in f"{error!r}"


def test_an_address_hides_its_credentials() -> None:
    """The repr of an address shows neither password nor options."""
    shown = repr(parse_address("redis+sentinel://u:hidden1@h/s?sentinel_password=hidden2"))
    assert "hidden" not in shown
