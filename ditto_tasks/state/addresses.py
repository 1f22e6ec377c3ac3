"""Addresses of state servers: one URL that says where the server is and how it is found. Pure.

    redis://[user:password@]host[:port][/db]          rediss://… with TLS
    unix:///path/to/socket?db=N                       redis+socket:///path?virtual_host=N as Celery has it
    redis+sentinel://[user:password@]host[:port],host2[:port]/service[/db]   rediss+sentinel://… with TLS
    redis+cluster://[user:password@]host[:port],host2[:port]                 rediss+cluster://… with TLS

User and password are those of the data servers. Query options: `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`,
`ssl_cert_reqs`, `ssl_check_hostname`, and for Sentinel `sentinel_username`, `sentinel_password`.
"""

from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from ditto_tasks.errors import SettingsError

Kind = Literal["single", "socket", "sentinel", "cluster"]

_KINDS: Final[dict[str, Kind]] = {
    "redis": "single",
    "unix": "socket",
    "redis+socket": "socket",
    "redis+sentinel": "sentinel",
    "redis+cluster": "cluster",
}
_DEFAULT_PORTS: Final[dict[Kind, int]] = {"single": 6379, "sentinel": 26379, "cluster": 6379, "socket": 0}
_TLS_OPTIONS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_SENTINEL_OPTIONS: Final = ("sentinel_username", "sentinel_password")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """What a URL says; `path` is the socket's, `service` the name that Sentinel watches."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    path: str = ""
    service: str = ""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def option(self, name: str) -> str | None:
        return dict(self.options).get(name)

    def tls_options(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.options if name in _TLS_OPTIONS]


def parse_address(url: str) -> ServerAddress:
    """The address in a URL, or SettingsError; the message never shows the URL, which may hold a password."""
    try:
        return _parse(urlsplit(url))
    except ValueError:
        raise SettingsError("INVALID_URL", "a state URL has a wrong port, database or option") from None


def _parse(parts: SplitResult) -> ServerAddress:
    tls = parts.scheme.startswith("rediss")
    kind = _KINDS.get(parts.scheme.replace("rediss", "redis", 1) if tls else parts.scheme)
    if kind is None:
        raise SettingsError("INVALID_URL", f"a state URL cannot start with {parts.scheme}://")
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    login, _, hosts = parts.netloc.rpartition("@")
    username, _, password = login.partition(":")
    place = _socket_place(parts, options) if kind == "socket" else _network_place(kind, parts, options, hosts)
    _refuse_unknown(options, kind)
    return ServerAddress(
        kind=kind,
        tls=tls,
        username=unquote(username) or None,
        password=unquote(password) or None,
        options=tuple(options.items()),
        **place,  # type: ignore[arg-type]  # the keys are fields of this class
    )


def _socket_place(parts: SplitResult, options: dict[str, str]) -> dict[str, object]:
    name = "virtual_host" if parts.scheme == "redis+socket" else "db"
    return {"path": unquote(parts.path), "db": int(options.pop(name, "0"))}


def _network_place(kind: Kind, parts: SplitResult, options: dict[str, str], hosts: str) -> dict[str, object]:
    if kind == "single" and "," in hosts:
        raise SettingsError("INVALID_URL", "several hosts need redis+sentinel:// or redis+cluster://")
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    place: dict[str, object] = {
        "hosts": tuple(_host(text, _DEFAULT_PORTS[kind]) for text in hosts.split(","))
    }
    if kind == "sentinel":
        if not segments:
            raise SettingsError("INVALID_URL", "a redis+sentinel URL needs the service's name: …/service/0")
        place["service"] = segments.pop(0)
    place["db"] = int(segments[0] if segments else options.pop("db", "0"))
    if kind == "cluster" and place["db"]:
        raise SettingsError("INVALID_URL", "a cluster has database 0 only")
    return place


def _host(text: str, default_port: int) -> tuple[str, int]:
    host = urlsplit(f"//{text}")
    return host.hostname or "localhost", host.port or default_port


def _refuse_unknown(options: dict[str, str], kind: Kind) -> None:
    known = (*_TLS_OPTIONS, *(_SENTINEL_OPTIONS if kind == "sentinel" else ()))
    for name in options:
        if name not in known:
            raise SettingsError("INVALID_URL", f"a {kind} state URL has no option {name}")
