"""What `ditto` says to someone who meets it for the first time: whole words, and what to do next."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest
import redis
from click.testing import CliRunner, Result
from support.workers import environment

from ditto_tasks.cli import COMMANDS, celery_group
from ditto_tasks.context.models import Context
from ditto_tasks.embedded import EmbeddedServer
from ditto_tasks.models import Scope
from ditto_tasks.state.redis import RedisContextStore
from ditto_tasks.worker.keys import dead_key

PLACES = 80  # of a terminal, and of what goes into a pipe
OF_ITS_OWN = {"compress"}
NOWHERE = {
    "DITTO_BROKER_URL": "redis://127.0.0.1:1/0",
    "DITTO_RESULT_BACKEND_URL": "redis://127.0.0.1:1/1",
    "DITTO_WORKER_CONTEXT_REDIS_URL": "redis://127.0.0.1:1/2",
}


def ditto(env: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(celery_group, arguments, env={**env, "COLUMNS": str(PLACES)})


def groups() -> list[str]:
    """The commands that have commands."""
    context = click.Context(celery_group)
    loaded = {name: celery_group.get_command(context, name) for name in COMMANDS}
    return [name for name, command in loaded.items() if isinstance(command, click.Group)]


@pytest.mark.parametrize("group", [[], *([name] for name in groups())], ids=" ".join)
def test_a_listed_command_is_explained_by_a_whole_sentence(group: list[str]) -> None:
    """No list of commands breaks a sentence off."""
    shown = ditto({}, *group, "-h").output.partition("Commands:")[2]
    lines = [line.split() for line in shown.splitlines() if line.strip()]
    assert lines
    assert [name for name, *words in lines if words[-1].endswith("...")] in ([], sorted(OF_ITS_OWN))


@pytest.mark.parametrize("command", ["sessions list", "runs list", "dead list", "shards", "erase --tenant a"])
def test_a_server_that_is_away_leads_to_the_doctor(command: str) -> None:
    """The one line names the code and the command that says what to do."""
    shown = ditto(NOWHERE, *command.split())
    assert shown.exit_code == 1
    assert "STATE_BACKEND_UNAVAILABLE" in shown.stderr
    assert "`ditto doctor`" in shown.stderr


@pytest.mark.parametrize("command", ["up --flower-port 65536", "demo --budget 0", "metrics --port -1"])
def test_a_number_out_of_range_is_a_wrong_option(command: str) -> None:
    """It is named with its range, and nothing is started."""
    shown = ditto({}, *command.split())
    assert shown.exit_code == 2
    assert "is not in the range" in shown.stderr


def test_an_erasure_without_servers_is_no_success() -> None:
    """Where no variable names a store, as in a new shell, nothing was proved: exit code 1 and the names."""
    shown = ditto({}, "erase", "--tenant", "a")
    assert shown.exit_code == 1
    for name in ("DITTO_BROKER_URL", "DITTO_WORKER_CONTEXT_REDIS_URL", "DITTO_WORKER_MEMORY_URL"):
        assert name in shown.stderr


def test_an_erasure_names_what_it_did_not_reach(server: EmbeddedServer) -> None:
    """A store that no variable names is said to be left out; the others are erased."""
    shown = ditto({"DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(2)}, "erase", "--session", "s")
    assert shown.exit_code == 0
    assert "contexts" in shown.stdout
    assert "DITTO_WORKER_MEMORY_URL is not set" in shown.stderr


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_an_erasure_asks_whoever_sits_at_a_terminal(server: EmbeddedServer, answer: str, code: int) -> None:
    """A person is asked first; a script, whose standard input is no terminal, is not."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "DITTO_WORKER_CONTEXT_REDIS_URL": server.redis_url(2)}
    try:
        os.write(ours, f"{answer}\n".encode())
        ended = subprocess.run(
            [sys.executable, "-m", "ditto_tasks", "erase", "--session", "s"],
            env=env,
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.returncode == code, ended.stderr
    assert "Erase it?" in ended.stdout
    assert ("contexts" in ended.stdout) is (code == 0)


def test_modules_of_this_directory_are_found(tmp_path: Path) -> None:
    """The program finds an extension where it is started, as `celery` does, and names one that is nowhere."""
    lines = ("from ditto_tasks.extensions import Extension", "extension = lambda settings: Extension()")
    (tmp_path / "mine.py").write_text("\n".join(lines), "utf-8")
    program = "from ditto_tasks.cli import main; main()"

    def doctor(name: str) -> str:
        command = [sys.executable, "-P", "-c", program, "doctor"]  # -P: not even `-c` adds the directory
        env = {**os.environ, **NOWHERE, "DITTO_EXTENSIONS": name}
        ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 1  # the servers are nowhere
        return ended.stdout

    assert "extensions: " not in doctor("mine:extension")
    missing = doctor("nowhere:extension")
    assert "nowhere can't be imported (there is no module nowhere)" in missing
    assert "DITTO_EXTENSIONS" in missing
    assert "memory: " not in missing


def test_dead_letters_are_listed_whole(server: EmbeddedServer, redis_client: "redis.Redis") -> None:
    """Id and code, which are copied from here, are not cut at 80 places; nothing steers the terminal."""
    identity = "0b6f7a1e-1111-4222-8333-abcdefabcdef"
    entry = {"code": "WRONG_CONTENT_TYPE", "size": 84, "taskId": identity, "node": "A\x07", "deaths": 0}
    queue = dead_key("ditto.interaction")
    with redis.Redis.from_url(server.redis_url(0)) as broker:
        broker.rpush(queue, json.dumps(entry))
        shown = ditto(environment(server), "dead", "list")
        broker.delete(queue)
    assert shown.exit_code == 0
    assert f"{identity}  WRONG_CONTENT_TYPE, cannot be sent again\n" in shown.stdout
    assert "ditto.interaction" in shown.stdout
    assert "\x07" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= PLACES
    assert "no dead letters" in ditto(environment(server), "dead", "list").stderr


def test_names_of_sessions_and_items_are_shown_whole(
    server: EmbeddedServer, redis_client: "redis.Redis"
) -> None:
    """A long name goes on in the next line, since what tells two apart is often at the end."""
    session, item = "acme:" + "s" * 70 + ":end", "turn:" + "i" * 70 + ":user"
    context = Context.parse({"items": [{"id": item, "content": "x"}]})
    RedisContextStore(redis_client).compare_and_set(Scope(session_id=session), None, context)
    for command, name in ((["list"], session), (["show", session], item)):
        shown = ditto(environment(server), "sessions", *command).stdout
        rows = [line.split("│")[1].strip() for line in shown.splitlines() if line.startswith("│")]
        assert "".join(rows) == name
        assert "…" not in shown
