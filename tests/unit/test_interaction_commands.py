"""The fourteen read-only commands: what they show, what they refuse, where they cut."""

import os
import threading
from pathlib import Path

import pytest

from ditto_tasks.errors import InteractionError
from ditto_tasks.interaction.base import InteractionCall
from ditto_tasks.interaction.commands import command_tools
from ditto_tasks.interaction.commands.catalog import COMMANDS
from ditto_tasks.interaction.commands.running import Gathering, decoded
from ditto_tasks.interaction.nodes import InteractionNodes
from ditto_tasks.interaction.permissions import Permissions
from ditto_tasks.interaction.registry import ToolRegistry
from ditto_tasks.interaction.values import ExternalResult
from ditto_tasks.models import CancelToken

FOURTEEN = [
    "grep",
    "ls",
    "cat",
    "find",
    "head",
    "tail",
    "wc",
    "sort",
    "uniq",
    "cut",
    "stat",
    "file",
    "du",
    "pwd",
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("beta\nalpha\nalpha\n")
    (folder / "sub" / "-n").write_text("dash\n")
    (tmp_path / "secret").write_text("canary")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder / "a.txt")
    (folder / "loop").symlink_to(folder / "loop")
    return folder


@pytest.fixture
def nodes(workspace: Path) -> InteractionNodes:
    registry = ToolRegistry()
    for tool in command_tools(workspace):
        registry.register(tool)
    allowed = Permissions(tools=frozenset(FOURTEEN), read=True)
    return InteractionNodes(registry, permissions=allowed)


def run(nodes: InteractionNodes, name: str, timeout_ms: int = 20_000, **arguments: object) -> ExternalResult:
    given = {"call": {"id": "c", "name": name, "arguments": arguments}}
    return nodes.act_tool(given, call=InteractionCall(timeout_ms=timeout_ms))


def shown(result: ExternalResult) -> str:
    assert result.status == "success", result
    assert isinstance(result.content, str)
    return result.content


def code(result: ExternalResult) -> str:
    assert result.error is not None, result
    assert "canary" not in str(result)
    return result.error.code


def test_there_are_fourteen() -> None:
    """Exactly the named commands exist, each read-only and in need of the permission to read."""
    assert sorted(COMMANDS) == sorted(FOURTEEN)
    assert all(tool.read_only and tool.needs == {"read"} for tool in command_tools(Path()))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("grep", {"options": ["-n"], "pattern": "alp", "paths": ["a.txt"]}, "2:alpha\n3:alpha\n"),
        ("grep", {"pattern": "-n", "paths": ["a.txt"]}, ""),
        ("ls", {"options": ["-1"], "paths": ["sub"]}, "-n\n"),
        ("cat", {"paths": ["sub/-n"]}, "dash\n"),
        ("cat", {"paths": ["in"]}, "beta\nalpha\nalpha\n"),
        ("find", {"pattern": "*.txt", "paths": ["."], "options": ["-type=f", "-maxdepth=1"]}, "./a.txt\n"),
        ("head", {"options": ["-n1"], "paths": ["a.txt"]}, "beta\n"),
        ("tail", {"options": ["-n1"], "paths": ["a.txt"]}, "alpha\n"),
        ("wc", {"options": ["-l"], "paths": ["a.txt"]}, "3 ./a.txt\n"),
        ("sort", {"options": ["-u"], "paths": ["a.txt"]}, "alpha\nbeta\n"),
        ("uniq", {"options": ["-c"], "paths": ["a.txt"]}, "      1 beta\n      2 alpha\n"),
        ("cut", {"options": ["-c1"], "paths": ["a.txt"]}, "b\na\na\n"),
        ("pwd", {}, ".\n"),
    ],
)
def test_commands(nodes: InteractionNodes, name: str, arguments: dict[str, object], expected: str) -> None:
    """Each command shows what its binary shows, with paths relative to the workspace."""
    assert shown(run(nodes, name, **arguments)) == expected


@pytest.mark.parametrize("name", ["stat", "file", "du"])
def test_other_commands(nodes: InteractionNodes, name: str) -> None:
    """stat, file and du say something about a file, or that this machine has no such command."""
    result = run(nodes, name, paths=["a.txt"])
    assert result.status == "success" or code(result) == "COMMAND_UNAVAILABLE"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "..",
        "../secret",
        "sub/../../secret",
        "out",
        "up/secret",
        "up",
        "a\0b",
        "a\\b",
        "",
        "loop",
    ],
)
def test_paths_outside_are_refused(nodes: InteractionNodes, path: str) -> None:
    """An absolute path, one with .., and a symlink that leads out are refused before anything runs."""
    assert code(run(nodes, "cat", paths=[path])) == "PATH_DENIED"


def test_recursion_does_not_follow_symlinks_out(nodes: InteractionNodes) -> None:
    """grep -r and find do not leave the workspace through a symlink inside it."""
    assert shown(run(nodes, "grep", options=["-r"], pattern="canary", paths=["."])) == ""
    assert "secret" not in shown(run(nodes, "find", pattern="*", paths=["."]))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tail", {"options": ["-f"], "paths": ["a.txt"]}),
        ("sort", {"options": ["-o", "x"], "paths": ["a.txt"]}),
        ("sort", {"options": ["--compress-program=sh"], "paths": ["a.txt"]}),
        ("grep", {"options": ["-f/etc/passwd"], "pattern": "x", "paths": ["a.txt"]}),
        ("grep", {"options": ["-R"], "pattern": "x", "paths": ["."]}),
        ("grep", {"pattern": "x", "paths": []}),
        ("find", {"options": ["-delete"], "pattern": "*", "paths": ["."]}),
        ("find", {"options": ["-exec"], "pattern": "*", "paths": ["."]}),
        ("wc", {"options": ["--files0-from=x"], "paths": ["a.txt"]}),
        ("du", {"options": ["-L"]}),
        ("ls", {"options": ["-L"]}),
        ("uniq", {"paths": ["a.txt", "written.txt"]}),
        ("cat", {}),
        ("cat", {"paths": "a.txt"}),
        ("cat", {"paths": ["a.txt"], "shell": "x"}),
        ("pwd", {"paths": ["."]}),
    ],
)
def test_other_arguments_are_refused(
    nodes: InteractionNodes, workspace: Path, name: str, arguments: dict[str, object]
) -> None:
    """Options that write, run, follow or hang are no arguments, nor is a path that would be written."""
    assert code(run(nodes, name, **arguments)) == "INVALID_ARGUMENTS"
    assert not (workspace / "written.txt").exists()


def test_failing_command(nodes: InteractionNodes) -> None:
    """A command that fails is a failed result that still shows status and messages."""
    result = run(nodes, "cat", paths=["missing"])
    assert code(result) == "COMMAND_FAILED"
    assert result.structured_content is not None
    assert result.structured_content["exitCode"] == 1
    assert "missing" in str(result.structured_content["stderr"])


def test_lines_are_cut(nodes: InteractionNodes, workspace: Path) -> None:
    """More than 1,000 lines are cut to 1,000, and it is said."""
    (workspace / "many").write_text("x\n" * 1_001)
    result = run(nodes, "cat", paths=["many"])
    assert len(shown(result).splitlines()) == 1_000
    assert result.structured_content is not None
    assert result.structured_content["truncated"] is True


def test_flood_is_cut(nodes: InteractionNodes, workspace: Path) -> None:
    """An endless flood is cut at 64 KiB without waiting for its end, and characters stay whole."""
    (workspace / "flood").write_text("é" * 4_000_000)
    text = shown(run(nodes, "cat", paths=["flood"]))
    assert 65_533 <= len(text.encode()) <= 65_536
    assert set(text) == {"é"}


def test_errors_are_cut(nodes: InteractionNodes) -> None:
    """Messages are cut at 8 KiB."""
    result = run(nodes, "cat", paths=[f"{n}{'x' * 200}" for n in range(64)])
    assert result.structured_content is not None
    assert len(str(result.structured_content["stderr"]).encode()) == 8_192


def test_whole_characters_at_the_cut() -> None:
    """Only a character that the cut split is left out; bad bytes elsewhere are replaced."""
    for text in ("aé", "a€", "a😀"):
        data = text.encode()
        for cut in range(2, len(data) + 1):
            gathering = Gathering(cut)
            gathering.add(data + b"x")
            assert decoded(gathering) == (text if cut == len(data) else "a")
    short = Gathering(10)
    short.add(b"a\xff")
    assert decoded(short) == "a\ufffd"


def test_hanging_command_is_killed(nodes: InteractionNodes, workspace: Path) -> None:
    """A command that waits for ever ends with its timeout, and its process is gone."""
    os.mkfifo(workspace / "pipe")
    result = run(nodes, "cat", timeout_ms=200, paths=["pipe"])
    assert result.status == "timeout"


def test_cancelled_command(nodes: InteractionNodes, workspace: Path) -> None:
    """A cancelled command ends as cancelled."""
    os.mkfifo(workspace / "pipe")
    token = CancelToken()
    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    given = {"call": {"id": "c", "name": "cat", "arguments": {"paths": ["pipe"]}}}
    assert nodes.act_tool(given, call=InteractionCall(token=token)).status == "cancelled"
    timer.join()


def test_reading_needs_its_permission(workspace: Path) -> None:
    """A permitted name is not enough: the permission to read is needed too."""
    registry = ToolRegistry()
    for tool in command_tools(workspace):
        registry.register(tool)
    denied = InteractionNodes(registry, permissions=Permissions(tools=frozenset(FOURTEEN)))
    with pytest.raises(InteractionError, match="PERMISSION_DENIED"):
        run(denied, "ls")


def test_worker_environment_stays_hidden(
    nodes: InteractionNodes, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands see nothing of the worker's environment, even where a file shows it."""
    monkeypatch.setenv("DITTO_BROKER_URL", "canary")
    (workspace / "env").symlink_to("/proc/self/environ")
    assert code(run(nodes, "cat", paths=["env"])) == "PATH_DENIED"
