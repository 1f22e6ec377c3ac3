"""The commands as tools for a registry."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ditto_tasks.interaction.base import ActionCall, Tool, ToolError, ToolOutput
from ditto_tasks.interaction.commands.arguments import command_line
from ditto_tasks.interaction.commands.catalog import COMMANDS, Command
from ditto_tasks.interaction.commands.running import Finished, run_command
from ditto_tasks.json_values import JsonObject

READ = frozenset({"read"})


def command_tools(workspace: Path) -> list[Tool]:
    """Return all commands as tools on one folder; each needs the permission to read."""
    return [
        Tool(
            name=command.name,
            description=command.description,
            input_schema=command.schema,
            run=partial(_run, command, workspace),
            needs=READ,
            read_only=True,
        )
        for command in COMMANDS.values()
    ]


def _run(command: Command, workspace: Path, arguments: JsonObject, call: ActionCall) -> ToolOutput:
    if command.name == "pwd":
        return _output(command, Finished(0, ".\n", "", truncated=False))
    return _output(
        command, run_command(command.name, command_line(command, arguments, workspace), workspace, call)
    )


def _output(command: Command, finished: Finished) -> ToolOutput:
    shown: JsonObject = {"stdout": finished.out, "stderr": finished.err, "truncated": finished.truncated}
    if finished.status is not None:
        shown["exitCode"] = finished.status
    failed = finished.status not in (0, None, command.quiet_status)
    error = ToolError("COMMAND_FAILED", f"{command.name} ended with status {finished.status}")
    return ToolOutput(content=finished.out, structured_content=shown, error=error if failed else None)
