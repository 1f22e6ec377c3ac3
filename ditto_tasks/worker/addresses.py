"""Addresses as Celery takes them, and back: settings and clients here have one URL for a Sentinel. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from ditto_tasks.errors import SettingsError
from ditto_tasks.state.addresses import ServerAddress, parse_address

SENTINEL: Final = "sentinel://"
SENTINEL_SCHEMES: Final = ("redis+sentinel://", "rediss+sentinel://")


class BrokerSettings(Protocol):
    """The part of an application's configuration that says where the broker is."""

    @property
    def broker_url(self) -> str: ...
    @property
    def broker_transport_options(self) -> Mapping[str, Any]: ...  # Celery's


class CeleryAddress(NamedTuple):
    """What Celery is told of a server: a URL, or one a Sentinel, and options of its transport."""

    url: str
    options: Mapping[str, object]


def celery_address(url: str) -> CeleryAddress:
    """A broker's or results' URL for Celery, which takes the name of a Sentinel's service as an option."""
    if not url.startswith(SENTINEL_SCHEMES):
        return CeleryAddress(url, {})
    address = parse_address(url)
    if address.tls:
        raise SettingsError("UNSUPPORTED_URL", "Celery reaches servers behind Sentinel without TLS only")
    login = _login(address)
    urls = [f"{SENTINEL}{login}{host}:{port}/{address.db}" for host, port in address.hosts]
    own = {"username": address.option("sentinel_username"), "password": address.option("sentinel_password")}
    known = {name: value for name, value in own.items() if value is not None}
    return CeleryAddress(";".join(urls), {"master_name": address.service, "sentinel_kwargs": known})


def broker_address(conf: BrokerSettings) -> str:
    """The broker's URL; Celery's list of Sentinels becomes one URL that names all of them and the service."""
    url = conf.broker_url
    if not url.startswith(SENTINEL):
        return url
    parts = [part.strip().removeprefix(SENTINEL).rstrip("/") for part in url.split(";")]
    hosts = [part.partition("/")[0] for part in parts]
    login, at, first = hosts[0].rpartition("@")
    others = [host.rpartition("@")[2] for host in hosts[1:]]
    db = next((part.partition("/")[2] for part in parts if "/" in part), "0")
    service = conf.broker_transport_options.get("master_name", "")
    own = conf.broker_transport_options.get("sentinel_kwargs") or {}
    query = urlencode({f"sentinel_{name}": own[name] for name in ("username", "password") if name in own})
    place = f"{login}{at}{','.join([first, *others])}/{service}/{db}"
    return f"redis+sentinel://{place}{'?' if query else ''}{query}"


def _login(address: ServerAddress) -> str:
    if address.password is None:
        return ""
    return f"{quote(address.username or '', safe='')}:{quote(address.password, safe='')}@"
