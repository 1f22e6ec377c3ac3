"""From a tool's arguments to a command line: paths stay inside of the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from ditto_tasks.interaction.base import ToolError
from ditto_tasks.interaction.commands.catalog import Command
from ditto_tasks.json_values import JsonValue


def command_line(command: Command, arguments: Mapping[str, JsonValue], workspace: Path) -> list[str]:
    """Return the arguments after the command's name; the schema was checked, paths are checked here."""
    options = _strings(arguments.get("options"))
    pattern = _strings([arguments["pattern"]] if command.takes_pattern else [])
    paths = [inside(path, workspace) for path in _strings(arguments.get("paths"))]
    _refuse_nul(pattern)
    if command.name == "find":
        return [*paths, *_find_options(options), "-name", *pattern]
    return [
        *options,
        *command.before_pattern,
        *pattern,
        *(["--"] if paths else []),
        *paths,
    ]


def inside(path: str, workspace: Path) -> str:
    """Return a relative path that leads nowhere else, symlinks included; raises PATH_DENIED."""
    pure = PurePosixPath(path)
    if not path or "\0" in path or "\\" in path or pure.is_absolute() or ".." in pure.parts:
        raise ToolError("PATH_DENIED", "a path is relative, POSIX, and without ..")
    try:
        target = (workspace / pure).resolve()
    except (OSError, RuntimeError) as error:  # a loop of symlinks, or a name that is too long
        raise ToolError("PATH_DENIED", "a path can't be resolved") from error
    if not target.is_relative_to(workspace.resolve()):
        raise ToolError("PATH_DENIED", "a path leads out of the workspace")
    # find takes no "--", so that no path may look like an option
    return "." if str(pure) == "." else f"./{pure}"


def _find_options(options: Sequence[str]) -> list[str]:
    """-maxdepth=2 as two arguments; it has to stand first."""
    depth_first = sorted(options, key=lambda option: not option.startswith("-maxdepth"))
    return [part for option in depth_first for part in option.split("=", 1)]


def _refuse_nul(texts: Sequence[str]) -> None:
    if any("\0" in text for text in texts):
        raise ToolError("INVALID_ARGUMENTS", "/pattern: holds a NUL character")


def _strings(values: JsonValue | Sequence[JsonValue]) -> list[str]:
    return [str(value) for value in values] if isinstance(values, list) else []
