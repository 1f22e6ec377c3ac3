"""`ditto credentials`: random ones are made once, agree with each other, and can be read back."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from ditto_tasks.cli.credentials import create, credentials, host_variables
from ditto_tasks.errors import SettingsError
from ditto_tasks.settings import default_settings, unknown_variables

IN_FOLDER = "DITTO_CREDENTIALS"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which credentials were made."""
    made = tmp_path / "credentials"
    create(made, memory="postgres")
    return made


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text("utf-8") for file in folder.iterdir()}


def test_what_services_and_clients_read_agrees(folder: Path) -> None:
    """The password in a client's URL is the one in the service's own file."""
    files, connections = contents(folder), default_settings({IN_FOLDER: str(folder)}).connections
    assert connections.broker_url is not None
    assert connections.memory_postgres_url is not None
    assert f":{files['valkey.password']}@valkey" in connections.broker_url.get_secret_value()
    assert files["valkey.conf"] == f"requirepass {files['valkey.password']}\n"
    assert f":{files['postgres.password']}@postgres" in connections.memory_postgres_url.get_secret_value()
    assert unknown_variables({IN_FOLDER: str(folder)}) == []


def test_a_second_start_changes_no_password(folder: Path) -> None:
    """Credentials that are there stay; a file that is missing is made again from them."""
    before = contents(folder)
    (folder / "valkey.conf").unlink()
    create(folder, memory="postgres")
    assert contents(folder) == before


def test_no_two_deployments_share_a_password(folder: Path, tmp_path: Path) -> None:
    """Every password of another folder is another one, and no service's is that of a second."""
    create(tmp_path / "other", memory="postgres")
    passwords = [
        text
        for place in (folder, tmp_path / "other")
        for name, text in contents(place).items()
        if name.endswith(".password")
    ]
    assert len(set(passwords)) == len(passwords) == 10
    assert all(len(password) >= 32 for password in passwords)


def test_only_owner_and_group_read_them(folder: Path) -> None:
    """Nothing in the folder is readable or writable for others."""
    modes = {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert modes == {0o640}
    assert stat.S_IMODE(folder.stat().st_mode) & 0o007 == 0


def test_memory_in_qdrant_replaces_memory_in_postgres(folder: Path) -> None:
    """Exactly one memory is named, the one that was asked for last."""
    create(folder, memory="qdrant")
    connections = default_settings({IN_FOLDER: str(folder)}).connections
    assert connections.memory_postgres_url is None
    assert connections.memory_qdrant_url is not None


@pytest.mark.parametrize(("options", "service"), [([], "flower"), (["--metrics"], "metrics")])
def test_a_credential_is_printed_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], service: str
) -> None:
    """`ditto credentials` prints user:password of Flower, or with --metrics of /metrics, and nothing else."""
    monkeypatch.setenv(IN_FOLDER, str(folder))
    shown = CliRunner().invoke(credentials, options)
    assert shown.output == f"ditto:{contents(folder)[f'{service}.password']}\n"


def test_creating_prints_no_credential(tmp_path: Path) -> None:
    """What `--create` prints, which ends in a container's log, holds no password."""
    shown = CliRunner().invoke(credentials, ["--create", str(tmp_path)])
    assert shown.exit_code == 0
    made = [text for name, text in contents(tmp_path).items() if name.endswith(".password")]
    assert not any(password in shown.output for password in made)


def test_a_client_on_the_host_uses_published_ports(folder: Path) -> None:
    """What the host is given names no service of Compose's network."""
    given = host_variables(default_settings({IN_FOLDER: str(folder)}))
    assert given["DITTO_BROKER_URL"].endswith("@127.0.0.1:16579/0")
    assert all("@127.0.0.1:" in url for url in given.values())


def test_the_environment_wins_over_a_file(folder: Path) -> None:
    """A variable that is set is not read from the folder; an empty one is."""
    env = {IN_FOLDER: str(folder), "DITTO_RESULT_BACKEND_URL": "disabled://", "DITTO_BROKER_URL": ""}
    connections = default_settings(env).connections
    assert connections.result_backend_url is not None
    assert connections.result_backend_url.get_secret_value() == "disabled://"
    assert connections.broker_url is not None


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """A wrong DITTO_CREDENTIALS stops the start instead of leaving all connections at their defaults."""
    with pytest.raises(SettingsError, match=IN_FOLDER):
        default_settings({IN_FOLDER: str(tmp_path / "absent")})
