"""`ditto credentials`: Flower's, that of the metrics, and the random ones of Compose's services."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import Settings, load_settings

SERVICES: Final = ("valkey", "postgres", "qdrant", "flower", "metrics")
TOKEN_BYTES: Final = 24  # 32 characters that need no quoting in a URL, a shell or YAML
FILE_MODE: Final = 0o640  # the services read as members of the owner's group
# host:port inside of Compose's network -> where compose.yaml publishes it
PUBLISHED: Final = {
    "@valkey:6379": "@127.0.0.1:16579",
    "@postgres:5432": "@127.0.0.1:15432",
    "http://qdrant:6333": "http://127.0.0.1:16333",
}


@click.command()
@click.option(
    "--create",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, writable=True),
    help="Make the missing random credentials of Compose's services in this folder.",
)
@click.option(
    "--memory",
    type=click.Choice(["postgres", "qdrant"]),
    default="postgres",
    show_default=True,
    help="With --create: the service that memory is in.",
)
@click.option("--host", is_flag=True, help="Print what a client on Compose's host exports.")
@click.option("--metrics", is_flag=True, help="Print the credential of /metrics instead of Flower's.")
def credentials(folder: Path | None, memory: str, *, host: bool, metrics: bool) -> None:
    """Print the credential of Flower's pages."""
    if folder is not None:
        create(folder, memory=memory)
        click.echo(f"credentials are in {folder}")
    elif host:
        for name, value in host_variables(load_settings()).items():
            click.echo(f"export {name}={shlex.quote(value)}")
    else:
        click.echo(_basic_auth(load_settings(), metrics=metrics))


def create(folder: Path, *, memory: str) -> None:
    """Passwords that are missing, and from all passwords the files that the services read.

    Passwords stay as they are, the rest is written anew: an interrupted start is completed by the next.
    """
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    passwords = {service: _password(folder / f"{service}.password") for service in SERVICES}
    files = {**_variables(passwords), **_service_files(passwords)}
    stores = _memory_variables(passwords)
    for name, text in {**files, **stores[memory]}.items():
        _write(folder / name, text)
    for other in {name for store in stores.values() for name in store} - stores[memory].keys():
        (folder / other).unlink(missing_ok=True)


def host_variables(settings: Settings) -> dict[str, str]:
    """The connections as a process on the host reaches them: by the published ports."""
    connections = settings.connections
    found = {
        "DITTO_BROKER_URL": connections.broker_url,
        "DITTO_RESULT_BACKEND_URL": connections.result_backend_url,
        "DITTO_WORKER_CONTEXT_REDIS_URL": connections.context_redis_url,
        "DITTO_WORKER_MEMORY_POSTGRES_URL": connections.memory_postgres_url,
        "DITTO_WORKER_MEMORY_QDRANT_URL": connections.memory_qdrant_url,
        "DITTO_WORKER_MEMORY_QDRANT_API_KEY": connections.memory_qdrant_api_key,
    }
    return {name: _published(secret.get_secret_value()) for name, secret in found.items() if secret}


def _published(url: str) -> str:
    for inside, outside in PUBLISHED.items():
        url = url.replace(inside, outside)
    return url


def _basic_auth(settings: Settings, *, metrics: bool) -> str:
    connections = settings.connections
    credential = connections.metrics_basic_auth if metrics else connections.flower_basic_auth
    if credential is None:
        variable = "DITTO_METRICS_BASIC_AUTH" if metrics else "DITTO_FLOWER_BASIC_AUTH"
        raise SettingsError("INVALID_SETTINGS", f"{variable}: is not set")
    return credential.get_secret_value()


def _password(file: Path) -> str:
    if file.exists():
        return file.read_text("utf-8").strip()
    made = secrets.token_urlsafe(TOKEN_BYTES)
    _write(file, made)
    return made


def _variables(passwords: Mapping[str, str]) -> dict[str, str]:
    """Variables of workers and clients; `settings/credentials.py` reads them."""
    valkey = f"redis://:{passwords['valkey']}@valkey:6379"
    return {
        "DITTO_BROKER_URL": f"{valkey}/0",
        "DITTO_RESULT_BACKEND_URL": f"{valkey}/1",
        "DITTO_WORKER_CONTEXT_REDIS_URL": f"{valkey}/2",
        "DITTO_FLOWER_BASIC_AUTH": f"ditto:{passwords['flower']}",
        "DITTO_METRICS_BASIC_AUTH": f"ditto:{passwords['metrics']}",
    }


def _memory_variables(passwords: Mapping[str, str]) -> dict[str, dict[str, str]]:
    postgres = f"postgresql://ditto:{passwords['postgres']}@postgres:5432/ditto"
    qdrant = {
        "DITTO_WORKER_MEMORY_QDRANT_URL": "http://qdrant:6333",
        "DITTO_WORKER_MEMORY_QDRANT_API_KEY": passwords["qdrant"],
    }
    return {"postgres": {"DITTO_WORKER_MEMORY_POSTGRES_URL": postgres}, "qdrant": qdrant}


def _service_files(passwords: Mapping[str, str]) -> dict[str, str]:
    """Configuration that keeps a password out of a service's command line."""
    return {
        "valkey.conf": f"requirepass {passwords['valkey']}\n",
        "qdrant.yaml": f"service:\n  api_key: {passwords['qdrant']}\n",
    }


def _write(file: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new one, never half of it."""
    new = file.with_name(f".{file.name}.new")
    new.unlink(missing_ok=True)
    new.touch(FILE_MODE, exist_ok=False)
    new.write_text(text, "utf-8")
    new.chmod(FILE_MODE)  # whatever the umask took
    new.replace(file)
