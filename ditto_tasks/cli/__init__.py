"""The command line: one click group, mounted both as `ditto` and as `celery ditto`.

A new command is a file in this folder and one line in COMMANDS.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from ditto_tasks.errors import DittoError, StateBackendError

# name -> module:attribute, imported when the command is run or its help is shown
COMMANDS: Final = {
    "compress": "ditto_tasks.cli.compress:compress",
    "credentials": "ditto_tasks.cli.credentials:credentials",
    "dead": "ditto_tasks.cli.dead:dead",
    "demo": "ditto_tasks.cli.demo:demo",
    "doctor": "ditto_tasks.cli.doctor:doctor",
    "erase": "ditto_tasks.cli.erase:erase",
    "explain": "ditto_tasks.cli.explain:explain",
    "health": "ditto_tasks.cli.health:health",
    "memory": "ditto_tasks.cli.memory:memory",
    "metrics": "ditto_tasks.cli.metrics:metrics",
    "runs": "ditto_tasks.cli.runs:runs",
    "sessions": "ditto_tasks.cli.sessions:sessions",
    "shards": "ditto_tasks.cli.shards:shards",
    "up": "ditto_tasks.cli.up:up",
}

DOCTOR: Final = "`ditto doctor` asks every server and says what to do"


class LazyGroup(click.Group):
    """A group whose commands are imported on use, since `celery` loads this module on every call."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what this package raises on purpose becomes one line and exit code 1."""
        try:
            return super().invoke(ctx)
        except StateBackendError as exc:
            raise click.ClickException(f"{exc}; {DOCTOR}") from exc
        except DittoError as exc:
            raise click.ClickException(str(exc)) from exc


@click.group("ditto", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ditto-tasks")
def celery_group() -> None:
    """Run and look after Ditto's agent nodes."""


def main() -> None:
    """The `ditto` program; as `celery` does, it finds modules in the directory in which it is started."""
    sys.path.append(str(Path.cwd()))
    celery_group(prog_name="ditto")
