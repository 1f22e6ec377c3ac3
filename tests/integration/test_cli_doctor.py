"""`ditto doctor` names what is wrong, says what to do, and shows no credential."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ditto_tasks.cli import COMMANDS, celery_group
from ditto_tasks.cli.up import free_port
from ditto_tasks.embedded import EmbeddedServer

SECRET = "hunter2-canary"


def doctor(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> Result:
    """The outcome of `ditto doctor` in an environment that holds only `variables` of ours."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(celery_group, ["doctor"])


def connections(server: EmbeddedServer, folder: Path) -> dict[str, str]:
    """Variables that point everything at `server`."""
    return {
        "DITTO_BROKER_URL": server.url(0),
        "DITTO_RESULT_BACKEND_URL": server.url(1),
        "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(2),
        "DITTO_WORKER_MEMORY_URL": f"sqlite:///{folder}/memory.sqlite3",
    }


def with_memory(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> dict[str, str]:
    """The variables, after the tables of their memory database were made."""
    monkeypatch.setenv("DITTO_WORKER_MEMORY_URL", variables["DITTO_WORKER_MEMORY_URL"])
    assert CliRunner().invoke(celery_group, ["memory", "init"]).exit_code == 0
    return variables


def test_a_memory_without_tables_is_wrong(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, tmp_path: Path
) -> None:
    """A database that was not prepared is named with the command that prepares it."""
    result = doctor(monkeypatch, connections(server, tmp_path))
    assert (result.exit_code, "ditto memory init" in result.output) == (1, True)


def test_a_sound_deployment_passes(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, tmp_path: Path
) -> None:
    """With everything reachable the exit code is 0 and nothing is called wrong."""
    variables = with_memory(monkeypatch, connections(server, tmp_path))
    result = doctor(monkeypatch, variables)
    assert result.exit_code == 0, result.output
    assert "wrong" not in result.output
    for subject in ("broker", "results", "contexts", "memory", "visibility timeout"):
        assert f"{subject}: " in result.output


def test_a_server_that_evicts_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A maxmemory-policy other than noeviction fails, with the command that corrects it."""
    with EmbeddedServer(extra_args=["--maxmemory-policy", "allkeys-lru"]) as server:
        result = doctor(monkeypatch, connections(server, tmp_path))
    assert result.exit_code == 1
    assert "CONFIG SET maxmemory-policy noeviction" in result.output


def test_what_cannot_be_reached_is_named_without_its_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreachable services are named by their variable, and their URLs stay hidden."""
    result = doctor(
        monkeypatch,
        {
            "DITTO_BROKER_URL": f"redis://:{SECRET}@127.0.0.1:1/0",
            "DITTO_RESULT_BACKEND_URL": f"redis://:{SECRET}@127.0.0.1:1/1",
            "DITTO_WORKER_CONTEXT_REDIS_URL": f"redis://:{SECRET}@127.0.0.1:1/2",
            "DITTO_WORKER_MEMORY_URL": f"postgresql://u:{SECRET}@127.0.0.1:1/db",
        },
    )
    assert result.exit_code == 1
    assert SECRET not in result.output
    for name in ("BROKER_URL", "RESULT_BACKEND_URL", "WORKER_CONTEXT_REDIS_URL", "WORKER_MEMORY_URL"):
        assert f"DITTO_{name}" in result.output


def test_a_refused_credential_is_not_called_an_absent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers and does not know the user: the variable whose credential is wrong is named."""
    with EmbeddedServer(extra_args=["--port", str(port := free_port(0))]):
        address = f"nobody:{SECRET}@127.0.0.1:{port}"
        names = ("BROKER_URL", "RESULT_BACKEND_URL", "WORKER_CONTEXT_REDIS_URL")
        urls = {f"DITTO_{name}": f"redis://{address}/{db}" for db, name in enumerate(names)}
        result = doctor(monkeypatch, urls)
    assert (result.exit_code, SECRET in result.output) == (1, False)
    for subject, name in zip(("broker", "results", "contexts"), urls, strict=True):
        assert f"{subject}: refuses user and password\n         -> correct those in {name}" in result.output


def test_a_default_address_is_named(monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer) -> None:
    """Where a variable is not set, the server that is used in its place is told: it may be another's."""
    result = doctor(monkeypatch, {"DITTO_RESULT_BACKEND_URL": server.url(1)})
    (broker,) = [line for line in result.output.splitlines() if "broker: " in line]
    (results,) = [line for line in result.output.splitlines() if "results: " in line]
    assert broker.endswith("its variable is not set, so it is redis://127.0.0.1:6379/0")
    assert "is not set" not in results


def test_no_memory_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, tmp_path: Path
) -> None:
    """Like contexts, memory may be left out by those who need none; the variable is named."""
    variables = connections(server, tmp_path)
    del variables["DITTO_WORKER_MEMORY_URL"]
    result = doctor(monkeypatch, variables)
    assert result.exit_code == 0, result.output
    assert "warning  memory: none is configured" in result.output
    assert "set DITTO_WORKER_MEMORY_URL" in result.output


def test_a_misspelt_variable_is_pointed_out(
    monkeypatch: pytest.MonkeyPatch, server: EmbeddedServer, tmp_path: Path
) -> None:
    """A DITTO_ variable that nothing reads is a warning, not a failure."""
    variables = with_memory(monkeypatch, connections(server, tmp_path))
    result = doctor(monkeypatch, variables | {"DITTO_BROKR_URL": "redis://h"})
    assert (result.exit_code, "DITTO_BROKR_URL" in result.output) == (0, True)


def test_bad_settings_end_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settings error is shown as one line with its key, without a traceback."""
    result = doctor(monkeypatch, {"DITTO_CONFIG": "absent.yaml"})
    assert result.exit_code == 1
    assert "absent.yaml" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    """Each registered command loads and explains itself."""
    result = CliRunner().invoke(celery_group, [command, "--help"])
    assert result.exit_code == 0
    assert "Usage: " in result.output
