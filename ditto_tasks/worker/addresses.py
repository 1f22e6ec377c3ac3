"""Celery's broker settings as the one URL that clients here are opened with. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

SENTINEL: Final = "sentinel://"


class BrokerSettings(Protocol):
    """The part of an application's configuration that says where the broker is."""

    @property
    def broker_url(self) -> str: ...
    @property
    def broker_transport_options(self) -> Mapping[str, Any]: ...  # Celery's


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
    return f"redis+sentinel://{login}{at}{','.join([first, *others])}/{service}/{db}"
