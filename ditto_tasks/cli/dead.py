"""`ditto dead`: messages that were given up on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ditto_tasks.cli.deployment import OpenDeployment, open_deployment
from ditto_tasks.pipelines.run_words import plain
from ditto_tasks.worker.dead_letters import DeadLetter, letters
from ditto_tasks.worker.dead_letters import drop as drop_letter
from ditto_tasks.worker.dead_letters import retry as retry_letter

if TYPE_CHECKING:
    from redis import Redis


@click.group()
def dead() -> None:
    """List, retry or drop dead letters."""


@dead.command("list")
@click.option("--queue", help="Only this queue.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, without the messages' text.")
def list_letters(*, queue: str | None, as_json: bool) -> None:
    """Show all dead letters."""
    with open_deployment() as deployment:
        found = list(letters(deployment.broker, [queue] if queue else deployment.queues()))
    for letter in found:
        click.echo(json.dumps(_shown(letter)) if as_json else _drawn(letter))
    if not found:
        click.echo("there are no dead letters", err=True)


def _shown(letter: DeadLetter) -> dict[str, object]:
    names = ("id", "queue", "task_id", "node", "scope_hash", "code", "deaths", "size")
    return {**{name: getattr(letter, name) for name in names}, "has_message": letter.message is not None}


def _drawn(letter: DeadLetter) -> str:
    """Two lines of at most 80 columns: id and code are copied from here, so they are never cut."""
    again = "can be sent again" if letter.message is not None else "cannot be sent again"
    about = [letter.queue, f"{letter.size} bytes", f"{letter.deaths} deaths"]
    if letter.scope_hash is not None:
        about.append(f"scope {letter.scope_hash.removeprefix('scope:')[:12]}")
    if letter.node is not None:
        about.insert(0, plain(letter.node))
    return f"{plain(letter.id)}  {letter.code}, {again}\n    {', '.join(about)}"


@dead.command()
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that were kept with their message.")
def retry(*, ids: tuple[str, ...], everything: bool) -> None:
    """Send dead letters again, behind what waits in their queues."""
    _each("sent again", retry_letter, ids, everything=everything)


@dead.command()
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All there are.")
def drop(*, ids: tuple[str, ...], everything: bool) -> None:
    """Delete dead letters."""
    _each("dropped", drop_letter, ids, everything=everything)


def _each(
    done: str, act: Callable[[Redis, DeadLetter], bool], ids: tuple[str, ...], *, everything: bool
) -> None:
    if not ids and not everything:
        raise click.UsageError("name dead letters by their ids, or use --all")
    with open_deployment() as deployment:
        count = sum(act(deployment.broker, letter) for letter in _chosen(deployment, ids))
    click.echo(f"{count} {done}")
    if not everything and count < len(set(ids)):
        raise click.ClickException("not all ids name a dead letter for which that is possible")


def _chosen(deployment: OpenDeployment, ids: tuple[str, ...]) -> Iterator[DeadLetter]:
    found = list(letters(deployment.broker, deployment.queues()))
    return (letter for letter in found if not ids or letter.id in ids)
