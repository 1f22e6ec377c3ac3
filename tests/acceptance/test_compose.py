"""compose.yaml and the Dockerfile: valid by the real tools, closed to the network, without credentials."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from ditto_tasks.cli import celery_group
from ditto_tasks.nodes import ORDINARY_QUEUES

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose.yaml"
DOCKERFILE = ROOT / "docker" / "Dockerfile"
PROGRAMS = Path(sys.executable).parent
WORKERS = ("context-worker", "worker", "infer-worker")
PAGES = ("flower", "metrics")
PROCESSES = (*WORKERS, "beat", *PAGES)
ONE_SHOT = ("init", "memory")
PORTS = {"valkey": ("16579", 6379), "postgres": ("15432", 5432), "qdrant": ("16333", 6333)}


@pytest.fixture(scope="module")
def stack() -> dict[str, Any]:
    """The services as Compose itself reads them, with no variable set."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DITTO_")}
    command = [PROGRAMS / "docker-compose", "--file", COMPOSE, "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=clean, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_dockerfile_is_clean() -> None:
    """hadolint has nothing to say, not even as information."""
    done = subprocess.run([PROGRAMS / "hadolint", DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_has_two_stages_and_no_root() -> None:
    """The wheel is built in a stage of its own, and the last stage ends as a numbered user."""
    text = DOCKERFILE.read_text("utf-8")
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)
    assert users
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1])
    assert not re.search(r"^# *syntax=", text, re.MULTILINE)


def test_the_image_holds_bytecode() -> None:
    """Packages are compiled when the image is built, since no container may write any."""
    text = DOCKERFILE.read_text("utf-8")
    assert text.index("ENV UV_COMPILE_BYTECODE=1") < text.index("uv pip install")


def test_the_build_context_is_what_is_copied() -> None:
    """Each source that the Dockerfile copies is let through, and nothing else is."""
    kept = {
        line[1:]
        for line in (ROOT / "docker" / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
        if line.startswith("!")
    }
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    assert kept == {source for line in copies for source in line.split()}


def test_every_process_of_a_deployment_is_there(stack: dict[str, Any]) -> None:
    """Servers, set-up, workers, beat, Flower and the metrics, and no other service."""
    assert set(stack["services"]) == {*PORTS, *ONE_SHOT, *PROCESSES}


def test_published_ports_bind_the_loopback_address(stack: dict[str, Any]) -> None:
    """Nothing listens on an address that another machine can reach."""
    published = [port for service in stack["services"].values() for port in service.get("ports", [])]
    assert {port["host_ip"] for port in published} == {"127.0.0.1"}
    for service, (outside, inside) in PORTS.items():
        (port,) = stack["services"][service]["ports"]
        assert (port["published"], port["target"]) == (outside, inside)
    assert all(stack["services"][name]["ports"] for name in PAGES)


def test_no_credential_stands_in_the_files(stack: dict[str, Any]) -> None:
    """No variable, command or label holds a password: all come from the volume that `init` fills."""
    text = json.dumps(stack) + DOCKERFILE.read_text("utf-8")
    assert not re.search(r"://[^/\s\"]*:[^/\s\"]*@", text)
    for name, service in stack["services"].items():
        secret = {
            variable: value
            for variable, value in (service.get("environment") or {}).items()
            if re.search(r"PASSWORD$|KEY$|AUTH$|TOKEN$", variable) and value
        }
        assert secret == {}, name


def test_only_init_writes_credentials(stack: dict[str, Any]) -> None:
    """Every other service that mounts the credentials mounts them read-only."""
    writers = {
        name
        for name, service in stack["services"].items()
        for mount in service.get("volumes", [])
        if mount["source"] == "credentials" and not mount.get("read_only")
    }
    assert writers == {"init"}


@pytest.mark.parametrize("name", [*PORTS, *PROCESSES])
def test_whatever_keeps_running_is_asked_for_its_health(stack: dict[str, Any], name: str) -> None:
    """Each lasting service has a probe that asks the service, and comes back after a crash."""
    service = stack["services"][name]
    assert service["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", WORKERS)
def test_workers_are_asked_by_ditto_health(stack: dict[str, Any], name: str) -> None:
    """`inspect ping` sees no shards, so it is no probe."""
    assert stack["services"][name]["healthcheck"]["test"] == ["CMD", "ditto", "health"]


@pytest.mark.parametrize("name", [*ONE_SHOT, *PROCESSES])
def test_own_containers_can_do_little(stack: dict[str, Any], name: str) -> None:
    """One image, a read-only root, no capability, no new privileges."""
    service = stack["services"][name]
    assert (service["image"], service["read_only"], service["cap_drop"]) == ("ditto-tasks", True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_services_of_models_can_be_named_from_outside(stack: dict[str, Any]) -> None:
    """A model and an embedding reach every worker by the caller's environment; unset they are empty."""
    for name in (*WORKERS, "memory"):
        environment = stack["services"][name]["environment"]
        for variable in ("DITTO_WORKER_INFER_MODEL", "DITTO_WORKER_RETRIEVAL_EMBEDDING_MODEL"):
            assert environment[variable] == "", name


def test_the_servers_start_without_the_rest(stack: dict[str, Any]) -> None:
    """`docker compose up valkey postgres qdrant` starts these three and what makes their credentials."""
    assert _needed(stack, PORTS) == {*PORTS, "init"}


def _needed(stack: dict[str, Any], names: Any) -> set[str]:
    needed = set(names)
    for name in names:
        needed |= _needed(stack, list(stack["services"][name].get("depends_on", {})))
    return needed


def test_every_queue_has_a_worker(stack: dict[str, Any]) -> None:
    """Together the workers serve the shards and each ordinary queue, each queue once."""
    served = [queue for name in WORKERS for queue in _queues(stack["services"][name]["command"])]
    assert sorted(served) == sorted(["ditto.ctx", *ORDINARY_QUEUES])


def _queues(command: list[str]) -> list[str]:
    return command[command.index("-Q") + 1].split(",")


def test_workers_can_be_scaled(stack: dict[str, Any]) -> None:
    """No worker has a fixed name or a published port."""
    for name in WORKERS:
        assert not {"container_name", "ports", "hostname"} & stack["services"][name].keys()


def test_the_broker_loses_nothing(stack: dict[str, Any]) -> None:
    """Valkey writes what it is told to disk and evicts nothing."""
    command = stack["services"]["valkey"]["command"]
    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_data_is_in_named_volumes(stack: dict[str, Any]) -> None:
    """What a service must keep is in a volume of Compose, which `down` leaves; no host folder is mounted."""
    mounts = [mount for service in stack["services"].values() for mount in service.get("volumes", [])]
    assert {mount["type"] for mount in mounts} == {"volume"}
    assert {*PORTS, "credentials", "flower"} <= {mount["source"] for mount in mounts} == set(stack["volumes"])


def test_commands_exist() -> None:
    """Each `ditto` command that the file names is one, and takes these options."""
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    commands = [service["command"] for service in services.values() if service.get("command")]
    own = [command[1:] for command in commands if command[0] == "ditto"]
    assert len(own) == len(ONE_SHOT) + 1  # `ditto metrics` lasts
    for words in own:
        named = [word for word in words if re.fullmatch(r"[a-z]+|--[a-z]+", word)]
        shown = CliRunner().invoke(celery_group, [*[w for w in named if not w.startswith("-")], "--help"])
        assert shown.exit_code == 0
        assert all(word in shown.output for word in named)


def test_flower_shows_no_results(stack: dict[str, Any]) -> None:
    """Flower is given no way to the result backend, and its configuration is the checked one."""
    flower = stack["services"]["flower"]
    assert flower["environment"]["DITTO_RESULT_BACKEND_URL"] == "disabled://"
    assert "--conf=/opt/ditto/config/flowerconfig.py" in flower["command"]


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_open_to_containers_and_ask_for_a_credential(stack: dict[str, Any], name: str) -> None:
    """They listen on the container's own address, and read what they ask for from the credentials' volume."""
    service = stack["services"][name]
    assert any("0.0.0.0" in word for word in service["command"])  # noqa: S104 -- the container's
    assert service["environment"]["DITTO_CREDENTIALS"] == "/run/credentials"
    assert "DITTO_FLOWER_WITHOUT_AUTH" not in service["environment"]
